"""Names of torch.distributed.pipelining: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="""Pipe PipelineStage Schedule1F1B ScheduleDualPipeV ScheduleGPipe
    ScheduleInterleaved1F1B ScheduleInterleavedZeroBubble ScheduleLoopedBFS
    ScheduleZBVZeroBubble SplitPoint""",
    functions="build_stage pipe_split pipeline",
)
