"""Settings of the compiler: kept, without effect."""

job_id = None
force_disable_caches = False
dynamic_sources = ""
