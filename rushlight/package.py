"""torch.package: not there."""

from rushlight._missing import absent

absent(
    globals(), "models are not packed with their code", classes="PackageExporter PackageImporter"
)
