"""torch.export's names; programs are not traced into graphs."""

from rushlight._missing import absent

absent(
    globals(),
    "programs run eagerly and are not traced into graphs",
    classes="""AdditionalInputs CustomDecompTable Dim ExportBackwardSignature ExportGraphSignature
    ExportedProgram FlatArgsAdapter ModuleCallEntry ModuleCallSignature ShapesCollection
    UnflattenedModule""",
    functions="""default_decompositions dims draft_export export load register_dataclass save
    unflatten""",
)
