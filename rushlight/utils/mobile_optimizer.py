"""Models for phones: not there."""

from rushlight._missing import absent

absent(globals(), "models are not prepared for phones", functions="optimize_for_mobile")
