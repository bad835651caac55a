#include "distributed/recorder.h"

namespace rush::distributed {
namespace {

constexpr size_t kMostPlaces = 4096;

uint64_t mixed(uint64_t hash, const std::string& text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash * 0x9e3779b97f4a7c15u + 1;
}

}  // namespace

std::string Entry::text() const {
  return concat("#", number, " ", what, where.empty() ? "" : " at ", where);
}

const std::string& Recorder::described(SourcePoint where) {
  static const std::string unknown;
  if (!where || !g_source_host.describe) return unknown;
  const uint64_t key = uint64_t(where.code) << 32 | where.offset;
  const auto found = places_.find(key);
  if (found != places_.end()) return found->second;
  if (places_.size() >= kMostPlaces) return unknown;
  return places_.emplace(key, g_source_host.describe(where)).first->second;
}

int64_t Recorder::issue(std::string what, SourcePoint where) {
  // Describing a line takes the GIL, which comes before every lock; the caller holds it.
  const std::string& place = described(where);
  const std::lock_guard lock(mutex_);
  if (open_.empty()) changed_ = Clock::now();
  open_.insert(issued_ + 1);
  hash_ = mixed(hash_, what);
  Entry entry{++issued_, hash_, std::move(what), place};
  if (entry.number % kStride == 0) {
    milestones_.push_back(entry);
    if (milestones_.size() > kMilestones) milestones_.pop_front();
  }
  ring_.push_back(std::move(entry));
  if (ring_.size() > kRing) ring_.pop_front();
  return issued_;
}

void Recorder::finish(int64_t number) {
  const std::lock_guard lock(mutex_);
  if (!open_.empty() && number == *open_.begin()) changed_ = Clock::now();
  open_.erase(number);
}

int64_t Recorder::issue_message(std::string what, int peer, SourcePoint where) {
  const std::string& place = described(where);
  const std::lock_guard lock(mutex_);
  messages_[++messages_issued_] = {peer, concat(what, place.empty() ? "" : " at ", place)};
  return messages_issued_;
}

void Recorder::finish_message(int64_t number) {
  const std::lock_guard lock(mutex_);
  messages_.erase(number);
}

std::map<int64_t, Message> Recorder::messages() const {
  const std::lock_guard lock(mutex_);
  return messages_;
}

int64_t Recorder::issued() const {
  const std::lock_guard lock(mutex_);
  return issued_;
}

int64_t Recorder::finished() const {
  const std::lock_guard lock(mutex_);
  return open_.empty() ? issued_ : *open_.begin() - 1;
}

std::optional<Clock::time_point> Recorder::waiting_since() const {
  const std::lock_guard lock(mutex_);
  if (open_.empty()) return {};
  return changed_;
}

std::optional<Entry> Recorder::find(int64_t number) const {
  const std::lock_guard lock(mutex_);
  for (const std::deque<Entry>* list : {&ring_, &milestones_})
    for (const Entry& e : *list)
      if (e.number == number) return e;
  return {};
}

std::deque<Entry> Recorder::latest(size_t most) const {
  const std::lock_guard lock(mutex_);
  const size_t first = ring_.size() > most ? ring_.size() - most : 0;
  std::deque<Entry> out(ring_.begin() + int64_t(first), ring_.end());
  for (auto e = milestones_.rbegin(); e != milestones_.rend(); ++e)
    if (out.empty() || e->number < out.front().number) out.push_front(*e);
  return out;
}

}  // namespace rush::distributed
