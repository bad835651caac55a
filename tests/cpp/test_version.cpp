#include "core/version.h"
#include "testing.h"

TEST(version_has_three_parts) {
  const std::string_view version = rush::version();
  int dots = 0;
  for (char c : version) dots += c == '.';
  EXPECT(dots == 2);
}
