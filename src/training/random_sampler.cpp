#include "podaq/training/random_sampler.h"

#include <torch/serialize/archive.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {

struct RandomSampler::State {
  std::size_t size = 0;
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::size_t position = 0;
  bool epoch_is_open = false;      // an epoch has begun, and is not over
  bool reset_continues = true;     // the next reset() takes up the epoch at `position`
  std::vector<std::size_t> order;  // of the epoch under way
};

namespace {

__extension__ using Product = unsigned __int128;  // of two 64-bit numbers

// Fisher and Yates' shuffle. The generator and its seeding are the same everywhere, by the C++ standard.
std::vector<std::size_t> permutation(std::size_t size, std::uint64_t seed, std::uint64_t epoch) {
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  const auto high = [](std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); };
  std::seed_seq words{low(seed), high(seed), low(epoch), high(epoch)};
  std::mt19937_64 random(words);
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t left = size; left > 1; --left) {
    const auto chosen = static_cast<std::size_t>((static_cast<Product>(random()) * left) >> 64);
    std::swap(order[left - 1], order[chosen]);
  }
  return order;
}

void check_size(std::size_t size) {
  if (size == 0) throw Error(ErrorCode::invalid_argument, "RandomSampler: size must be at least 1");
}

std::uint64_t read_count(torch::serialize::InputArchive& archive, const char* key) {
  c10::IValue value;
  archive.read(key, value);
  return static_cast<std::uint64_t>(value.toInt());
}

}  // namespace

RandomSampler::RandomSampler(std::size_t size, std::uint64_t seed) : state_(std::make_shared<State>()) {
  check_size(size);
  state_->size = size;
  state_->seed = seed;
}

void RandomSampler::reset(std::optional<std::size_t> new_size) {
  State& state = *state_;
  if (!state.reset_continues) {
    ++state.epoch;
    state.position = 0;
  }
  if (new_size && *new_size != state.size) {
    check_size(*new_size);
    state.size = *new_size;
    state.position = 0;
  }
  state.order = permutation(state.size, state.seed, state.epoch);
  state.reset_continues = false;
  state.epoch_is_open = true;
}

std::optional<std::vector<std::size_t>> RandomSampler::next(std::size_t batch_size) {
  if (state_->order.empty()) reset();
  State& state = *state_;
  const std::size_t count = std::min(batch_size, state.size - state.position);
  if (count == 0) {
    state.epoch_is_open = false;
    return std::nullopt;
  }
  const auto first = state.order.begin() + static_cast<std::ptrdiff_t>(state.position);
  state.position += count;
  return std::vector<std::size_t>(first, first + static_cast<std::ptrdiff_t>(count));
}

void RandomSampler::save(torch::serialize::OutputArchive& archive) const {
  const State& state = *state_;
  // An epoch that is over is saved as the beginning of the next.
  const bool is_over = !state.epoch_is_open && !state.reset_continues;
  archive.write("size", c10::IValue(static_cast<std::int64_t>(state.size)));
  archive.write("seed", c10::IValue(static_cast<std::int64_t>(state.seed)));
  archive.write("epoch", c10::IValue(static_cast<std::int64_t>(is_over ? state.epoch + 1 : state.epoch)));
  archive.write("position", c10::IValue(static_cast<std::int64_t>(is_over ? 0 : state.position)));
}

void RandomSampler::load(torch::serialize::InputArchive& archive) {
  const std::uint64_t size = read_count(archive, "size");
  if (size != state_->size)
    throw Error(ErrorCode::invalid_argument,
                concat("RandomSampler: the saved order is of ", size, " samples, this sampler is for ", state_->size));
  state_->seed = read_count(archive, "seed");
  const std::uint64_t epoch = read_count(archive, "epoch");
  seek(epoch, static_cast<std::size_t>(read_count(archive, "position")));
}

std::uint64_t RandomSampler::epoch() const {
  return state_->epoch;
}

std::size_t RandomSampler::position() const {
  return state_->position;
}

void RandomSampler::seek(std::uint64_t epoch, std::size_t position) {
  if (position > state_->size)
    throw Error(ErrorCode::invalid_argument,
                concat("RandomSampler: position ", position, " is beyond the ", state_->size, " samples"));
  state_->epoch = epoch;
  state_->position = position;
  state_->order.clear();
  state_->reset_continues = true;
  state_->epoch_is_open = false;
}

void RandomSampler::finish_epoch() {
  if (!state_->reset_continues) state_->epoch_is_open = false;
}

}  // namespace podaq
