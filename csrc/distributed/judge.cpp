#include "distributed/judge.h"

#include <algorithm>

namespace rush::distributed {
namespace {

constexpr auto kBeat = std::chrono::milliseconds(1000);
constexpr auto kPatience = std::chrono::milliseconds(1200);  // before all others are looked at
constexpr auto kStoppedAfter = std::chrono::seconds(5);
constexpr auto kSilentAfter = std::chrono::seconds(10);
constexpr auto kMessagesArriveIn = std::chrono::seconds(2);  // of a rank that left after sending
constexpr size_t kPublished = 32, kMessagesPublished = 4;
constexpr int kMostRanksShown = 16;

std::string status_key(int rank) { return concat("status/", rank); }

}  // namespace

Judge::Judge(std::shared_ptr<Store> store, int rank, int size, std::string group,
             const Recorder& recorder)
    : store_(std::move(store)),
      rank_(rank),
      size_(size),
      group_(std::move(group)),
      recorder_(recorder),
      mine_(own_status()) {
  publish();
  thread_ = std::thread([this] { run(); });
}

Judge::~Judge() { stop(); }

void Judge::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string Judge::verdict() const {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

void Judge::run() {
  while (true) {
    try {
      beat();
    } catch (const NetworkError& error) {
      // Whoever holds it may have left in order, and what it sent last is still on its way.
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, kMessagesArriveIn, [&] { return stop_; })) return;
      lock.unlock();
      decide(concat("the store of the process group cannot be reached (", error.message(),
                    "): the process that holds it, rank 0 or the launcher, ended or stands still"));
      return;
    } catch (const std::exception&) {
      // A store that hiccups is asked again.
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kBeat, [&] { return stop_ || beat_now_; });
    beat_now_ = false;
    if (stop_ || decided_) return;
  }
}

void Judge::publish() {
  const std::lock_guard one_at_a_time(publishing_);  // or an older status could overwrite a newer
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    ++mine_.beat;
    mine_.issued = recorder_.issued();
    mine_.finished = recorder_.finished();
    mine_.entries = recorder_.latest(kPublished);
    mine_.messages.clear();
    for (const auto& [number, message] : recorder_.messages())
      if (mine_.messages.size() < kMessagesPublished) mine_.messages.push_back(message.text);
    text = mine_.text();
  }
  store_->set(status_key(rank_), text);
}

bool Judge::read_verdict() {
  if (!store_->check({"verdict"})) return false;
  decide(store_->get("verdict", std::chrono::seconds(5)));
  return true;
}

void Judge::decide(const std::string& verdict) {
  const std::lock_guard lock(mutex_);
  if (verdict_.empty()) verdict_ = verdict;
  decided_.store(true, std::memory_order_release);
  wake_.notify_all();
}

Judge::Waits Judge::waits() const {
  const auto long_ago = Clock::now() - kPatience;
  Waits out;
  const auto since = recorder_.waiting_since();
  out.collective = since && *since < long_ago;
  for (const auto& [number, message] : recorder_.messages()) {
    if (message.since >= long_ago) continue;
    if (message.peer < 0)
      out.from_anybody = true;
    else
      out.peers.insert(message.peer);
  }
  return out;
}

void Judge::beat() {
  publish();
  if (read_verdict()) return;
  const Waits waits = this->waits();
  int left = 0;
  for (int step = 1; step < size_; ++step) {
    const int other = (rank_ + step) % size_;
    const RankStatus status = read(other);
    left += status.state == "left";
    std::string fault = compare(other, status);
    if (fault.empty() && waits.any()) fault = look_after(other, status, waits);
    if (fault.empty() && waits.from_anybody && left == size_ - 1)
      fault = concat("all other ranks left the group\n  ", own_place());
    if (!fault.empty()) {
      report(fault);
      return;
    }
    if (!waits.any()) return;  // the neighbour was enough
  }
}

RankStatus Judge::read(int rank) {
  return RankStatus::parse(store_->get(status_key(rank), std::chrono::seconds(5)));
}

std::string Judge::compare(int other, const RankStatus& status) {
  for (const Entry& theirs : status.entries) {
    const std::optional<Entry> ours = recorder_.find(theirs.number);
    if (!ours || ours->hash == theirs.hash) continue;
    if (ours->what != theirs.what) return disagreement(theirs.number);
    return concat("the ranks of ", group_, " disagreed at a collective before #", theirs.number,
                  ", which is too long ago to be shown: ranks ", rank_, " and ", other);
  }
  return "";
}

std::string Judge::disagreement(int64_t number) {
  std::string text = concat("the ranks of ", group_, " disagree at collective #", number, ":");
  for (int r = 0; r < std::min(size_, kMostRanksShown); ++r) {
    const RankStatus status = r == rank_ ? RankStatus() : read(r);
    const std::optional<Entry> ours = r == rank_ ? recorder_.find(number) : std::nullopt;
    const Entry* entry = ours ? &*ours : status.find(number);
    text += concat("\n  rank ", r, ": ", entry ? entry->text() : "has not come there");
  }
  return text;
}

std::string Judge::describe_rank(int rank, const RankStatus& status) const {
  return concat("rank ", rank, " (process ", status.pid, " on ", status.host, ")");
}

std::string Judge::own_place() const {
  const std::optional<Entry> entry = recorder_.find(recorder_.finished() + 1);
  const auto messages = recorder_.messages();
  if (!entry && !messages.empty())
    return concat("rank ", rank_, " waits in ", messages.begin()->second.text);
  return concat("rank ", rank_, " waits in ", entry ? entry->text() : "a collective");
}

std::string Judge::look_after(int other, const RankStatus& status, const Waits& waits) {
  Seen& seen = seen_[other];
  const auto now = Clock::now();
  if (seen.beat != status.beat) seen = {status.beat, now};
  const auto silent = now - seen.since;
  if (!waits.collective && !waits.from_anybody && !waits.peers.contains(other)) return "";
  const ProcessState state = state_of(status);
  const bool left_collective = waits.collective && status.issued <= recorder_.finished();
  const bool left_message = waits.peers.contains(other) && silent > kMessagesArriveIn;
  std::string what;
  if (status.state == "raised")
    what = "raised " + status.why;
  else if (status.state == "left" && (left_collective || left_message))
    what = "left the group";
  else if (state == ProcessState::Gone && status.state != "left")
    what = "ended without leaving the group";
  else if (state == ProcessState::Stopped && silent > kStoppedAfter)
    what = "is stopped (by a signal such as SIGSTOP)";
  else if (silent > kSilentAfter && status.state != "left")
    what = concat("gives no sign of life: it ended, is stopped, or cannot reach the store");
  if (what.empty()) return "";
  const Entry* last = status.last();
  return concat(describe_rank(other, status), " ", what, "; its last collective was ",
                last ? last->text() : "none", "\n  ", own_place());
}

std::string Judge::report(const std::string& fault) {
  try {
    decide(store_->compare_set("verdict", "", fault));
  } catch (const std::exception&) {
    decide(fault);  // nobody can be told any more
  }
  return verdict();
}

// A line for each of the other ranks; a disagreement found on the way is thrown.
std::string Judge::others_at(int64_t number) {
  std::string text;
  for (int r = 0; r < std::min(size_, kMostRanksShown); ++r) {
    if (r == rank_) continue;
    const RankStatus status = read(r);
    if (const std::string fault = compare(r, status); !fault.empty()) throw BackendError(fault);
    const Entry* last = status.last();
    text += concat("\n  ", describe_rank(r, status));
    if (number > 0) text += status.issued >= number ? " has come there" : " has not come there";
    if (number > 0) text += ";";
    text += concat(" its last collective was ", last ? last->text() : "none");
    for (const std::string& m : status.messages) text += "; it waits in " + m;
  }
  return text;
}

std::string Judge::report_timeout(int64_t number, Milliseconds timeout) {
  if (has_verdict()) return verdict();
  const std::optional<Entry> mine = recorder_.find(number);
  return report_late(mine ? mine->text() : "a collective", number, timeout);
}

std::string Judge::report_message_timeout(int64_t number, Milliseconds timeout) {
  if (has_verdict()) return verdict();
  const auto messages = recorder_.messages();
  const auto found = messages.find(number);
  return report_late(found == messages.end() ? "a message" : found->second.text, 0, timeout);
}

std::string Judge::report_late(const std::string& what, int64_t number, Milliseconds timeout) {
  std::string text = concat(what, " timed out on rank ", rank_, " after ", timeout.count(), " ms:");
  try {
    publish();
    text += others_at(number);
  } catch (const BackendError& disagreement) {
    return report(disagreement.message());
  } catch (const std::exception& error) {
    text += concat("\n  and the others cannot be asked: ", error.what());
  }
  return report(text);
}

std::string Judge::explain(const std::string& engine_error) {
  std::unique_lock lock(mutex_);
  for (int turn = 0; turn < 50 && !decided_; ++turn) {
    beat_now_ = true;
    wake_.notify_all();
    wake_.wait_for(lock, std::chrono::milliseconds(50), [&] { return decided_.load(); });
  }
  if (decided_) return verdict_ + "\n  (" + engine_error + ")";
  lock.unlock();
  return report(concat("rank ", rank_, ": ", engine_error, "\n  ", own_place()));
}

void Judge::say_raised(const std::string& error) {
  {
    const std::lock_guard lock(mutex_);
    if (mine_.state != "running" || decided_) return;
    mine_.state = "raised";
    mine_.why = error;
  }
  try {
    publish();
  } catch (const std::exception&) {
    // The others find out by themselves that this rank is gone.
  }
}

void Judge::leave() {
  stop();
  {
    const std::lock_guard lock(mutex_);
    if (mine_.state != "running" || decided_) return;  // all know that the group is broken
    mine_.state = "left";
  }
  try {
    publish();
  } catch (const std::exception&) {
    // The store is gone: so are those who would ask.
  }
}

}  // namespace rush::distributed
