"""Settings about repeatable results."""

fill_uninitialized_memory = True  # kept only: fresh memory is not filled
