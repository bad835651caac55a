#include "core/error.h"

namespace rush {

void internal_failure(std::string_view what, std::source_location where) {
  std::string_view file = where.file_name();
  if (auto slash = file.find_last_of('/'); slash != std::string_view::npos)
    file.remove_prefix(slash + 1);
  throw Error(ErrorKind::Internal,
              concat("internal error in Rushlight at ", file, ":", where.line(), ": ", what,
                     ". This is a bug of ours; please report it with the program that led here"));
}

}  // namespace rush
