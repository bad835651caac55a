// printed_package.h: the package that reprs name, as in "rushlight.float32". Programs written for
// PyTorch that run through rushlight.as_torch read "torch" there, since they parse such texts.
#pragma once

namespace rush::py {

const char* printed_package();

}  // namespace rush::py
