"""Names of torch.distributed.fsdp.wrap: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="CustomPolicy ModuleWrapPolicy",
    functions="""always_wrap_policy enable_wrap lambda_auto_wrap_policy size_based_auto_wrap_policy
    transformer_auto_wrap_policy wrap""",
)
