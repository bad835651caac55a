// store_message.h: what a TCPStore and its server send each other.
//
// A message is its length (4 bytes) and as many bytes: one that says what it is, then fields. A
// field is its length (4 bytes) and bytes; numbers are fields of 8 bytes. The first message of a
// client is a greeting with the token; whoever sends anything else is not answered.
#pragma once

#include <cstring>
#include <optional>
#include <string_view>

#include "distributed/store.h"

namespace rush::distributed {

enum class Reply : uint8_t { Done, TimedOut, Failed };

inline constexpr std::string_view kGreeting = "rushlight store 1";
inline constexpr uint8_t kHello = 255;
inline constexpr uint32_t kLongestHello = 1024;
inline constexpr uint32_t kLongestMessage = 256u << 20;
inline constexpr size_t kLongestValue = kLongestMessage - 1024;  // beside it an answer has little
inline constexpr size_t kMostKeys = 4096;                        // of one command

class Message {
 public:
  explicit Message(uint8_t kind) : bytes_(sizeof(uint32_t), '\0') { bytes_ += char(kind); }
  Message& add(std::string_view field) {
    const uint32_t size = uint32_t(field.size());
    bytes_.append(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes_ += field;
    return *this;
  }
  Message& add(int64_t number) {
    return add(std::string_view(reinterpret_cast<const char*>(&number), sizeof(number)));
  }
  const std::string& bytes() {  // with the length in front
    const uint32_t size = uint32_t(bytes_.size() - sizeof(uint32_t));
    std::memcpy(bytes_.data(), &size, sizeof(size));
    return bytes_;
  }

 private:
  std::string bytes_;
};

inline uint32_t read_length(std::string_view bytes) {
  uint32_t size;
  std::memcpy(&size, bytes.data(), sizeof(size));
  return size;
}

// Takes the fields out of a message one by one; nothing when it does not hold what is asked for.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  std::optional<std::string> text() {
    if (rest_.size() < sizeof(uint32_t)) return {};
    const uint32_t size = read_length(rest_);
    if (rest_.size() - sizeof(uint32_t) < size) return {};
    std::string field(rest_.substr(sizeof(uint32_t), size));
    rest_.remove_prefix(sizeof(uint32_t) + size);
    return field;
  }
  std::optional<int64_t> number() {
    const std::optional<std::string> field = text();
    int64_t value;
    if (!field || field->size() != sizeof(value)) return {};
    std::memcpy(&value, field->data(), sizeof(value));
    return value;
  }

 private:
  std::string_view rest_;
};

inline std::string encode(const Command& command, Milliseconds timeout) {
  Message message{uint8_t(command.kind)};
  message.add(int64_t(timeout.count())).add(command.amount).add(command.value);
  message.add(command.expected);
  for (const std::string& key : command.keys) message.add(key);
  return message.bytes();
}

// Nothing when the bytes are no command. `timeout` is set to its timeout.
inline std::optional<Command> decode(std::string_view message, Milliseconds& timeout) {
  Command command{.kind = CommandKind(message[0])};
  Fields fields(message.substr(1));
  const auto limit = fields.number(), amount = fields.number();
  auto value = fields.text(), expected = fields.text();
  if (uint8_t(message[0]) >= kCommandKinds || !limit || !amount || !value || !expected) return {};
  timeout = Milliseconds(std::clamp<int64_t>(*limit, 0, int64_t(1) << 40));
  command.amount = *amount;
  command.value = *std::move(value);
  command.expected = *std::move(expected);
  while (!fields.empty()) {
    auto key = fields.text();
    if (!key || command.keys.size() == kMostKeys) return {};
    command.keys.push_back(*std::move(key));
  }
  if (command.keys.empty() && command.kind != CommandKind::Count) return {};
  return command;
}

}  // namespace rush::distributed
