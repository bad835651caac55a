"""torch.export's names; programs are not traced into graphs."""

from rushlight._missing import absent

absent(
    globals(),
    "programs run eagerly and are not traced into graphs",
    classes="Dim ExportedProgram ExportGraphSignature ModuleCallSignature ShapesCollection",
    functions="default_decompositions dims export load register_dataclass save",
)
