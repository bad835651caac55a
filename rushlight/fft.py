"""Fourier transforms: not there yet. The names can be found, and raise when called."""

from rushlight._missing import absent

absent(
    globals(),
    "Fourier transforms are not there yet",
    functions="""fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft
    ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn""",
)
