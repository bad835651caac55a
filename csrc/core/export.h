// export.h: RUSH_API marks what leaves librushlight.so; everything else is hidden.
#pragma once

#define RUSH_API __attribute__((visibility("default")))
