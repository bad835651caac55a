"""Names of torch.distributed.checkpoint.state_dict: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="StateDictOptions",
    functions="""get_model_state_dict get_optimizer_state_dict get_state_dict set_model_state_dict
    set_optimizer_state_dict set_state_dict""",
)
