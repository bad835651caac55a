"""What rushlight.library is made of: schemas, operators, gradients, the checks of opcheck."""
