// export.h: marks what librushlight.so offers to others; everything else stays hidden.
#pragma once
#define RUSH_API __attribute__((visibility("default")))
