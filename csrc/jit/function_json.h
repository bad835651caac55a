// function_json.h: functions as JSON; a part of program_json.h.
#pragma once

#include "jit/code.h"
#include "jit/json.h"

namespace rush::jit {

Json json_of(const Function& f);
Json json_of(const AttributeEntry& a);
// `what` names the text in messages. Types and flow are not checked yet.
Function function_from(const Json& j, const std::string& what);
AttributeEntry attribute_from(const Json& j, const std::string& what);

}  // namespace rush::jit
