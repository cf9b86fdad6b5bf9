#include "podaq/training/random_sampler.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>
#include <vector>

#include "podaq/core/error.h"

namespace podaq {
namespace {

using Indices = std::vector<std::size_t>;

Indices rest_of_epoch(RandomSampler& sampler, std::size_t batch) {
  Indices all;
  while (const auto indices = sampler.next(batch)) all.insert(all.end(), indices->begin(), indices->end());
  return all;
}

Indices next_epoch(RandomSampler& sampler, std::size_t batch = 7) {
  sampler.reset();
  return rest_of_epoch(sampler, batch);
}

bool is_permutation_of_all(Indices indices, std::size_t size) {
  Indices all(size);
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::ranges::sort(indices);
  return indices == all;
}

std::string saved(const RandomSampler& sampler) {
  torch::serialize::OutputArchive archive;
  sampler.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  return stream.str();
}

void load(RandomSampler& sampler, const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  sampler.load(archive);
}

// The order in which a LibTorch loader delivers the samples of one epoch.
class Numbers : public torch::data::datasets::Dataset<Numbers> {
 public:
  explicit Numbers(std::size_t size) : size_(size) {}
  torch::data::Example<> get(std::size_t index) override {
    return {torch::tensor(static_cast<std::int64_t>(index)), torch::tensor(std::int64_t{0})};
  }
  std::optional<std::size_t> size() const override { return size_; }

 private:
  std::size_t size_;
};

template <typename Loader>
Indices delivered(Loader& loader) {
  Indices order;
  for (const auto& batch : loader)
    for (const auto& example : batch)
      order.push_back(static_cast<std::size_t>(example.data.template item<std::int64_t>()));
  return order;
}

TEST(RandomSamplerOrder, IsADifferentPermutationEachEpochC10) {
  RandomSampler sampler(100, 5);
  std::set<Indices> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const Indices order = next_epoch(sampler);
    EXPECT_TRUE(is_permutation_of_all(order, 100));
    EXPECT_EQ(sampler.epoch(), static_cast<std::uint64_t>(epoch));
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3U);
}

TEST(RandomSamplerOrder, DependsOnSeedAndEpochAlone) {
  RandomSampler first(50, 9), second(50, 9), other(50, 10);
  second.seek(2);
  next_epoch(first, 3);
  next_epoch(first, 50);
  const Indices third = next_epoch(first, 8);
  EXPECT_EQ(third, next_epoch(second, 11));
  other.seek(2);
  EXPECT_NE(third, next_epoch(other));
}

TEST(RandomSamplerOrder, FirstElementIsUniform) {
  std::vector<int> counts(8, 0);
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    RandomSampler sampler(8, seed);
    sampler.reset();
    ++counts[sampler.next(1)->front()];
  }
  for (const int count : counts) EXPECT_NEAR(count, 500, 110);  // five standard deviations
}

TEST(RandomSamplerInALoader, DeliversADifferentOrderEachEpochC10) {
  RandomSampler sampler(30, 3);
  auto loader = torch::data::make_data_loader(Numbers(30), sampler, torch::data::DataLoaderOptions(4));
  std::set<Indices> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const Indices order = delivered(*loader);
    EXPECT_TRUE(is_permutation_of_all(order, 30));
    EXPECT_EQ(sampler.epoch(), static_cast<std::uint64_t>(epoch));  // the loader's copy moves the user's sampler
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3U);
}

TEST(RandomSamplerInALoader, ASeekOfTheUsersSamplerReachesIt) {
  RandomSampler sampler(30, 3);
  auto loader = torch::data::make_data_loader(Numbers(30), sampler, torch::data::DataLoaderOptions(4));
  sampler.seek(7);
  RandomSampler reference(30, 3);
  reference.seek(7);
  EXPECT_EQ(delivered(*loader), next_epoch(reference));
}

TEST(RandomSamplerResumed, InTheMiddleOfAnEpochGoesOnWithTheSamePermutationC10) {
  RandomSampler unbroken(64, 4);
  next_epoch(unbroken);
  const Indices second = next_epoch(unbroken);
  const Indices third = next_epoch(unbroken);

  RandomSampler stopped(64, 4);
  next_epoch(stopped);
  stopped.reset();
  Indices order;
  for (int i = 0; i < 3; ++i) {
    const auto batch = stopped.next(9);
    order.insert(order.end(), batch->begin(), batch->end());
  }
  const std::string bytes = saved(stopped);

  RandomSampler resumed(64, 12345);  // the saved seed holds
  load(resumed, bytes);
  EXPECT_EQ(resumed.position(), 27U);
  const Indices rest = next_epoch(resumed, 9);
  order.insert(order.end(), rest.begin(), rest.end());
  EXPECT_EQ(order, second);
  EXPECT_EQ(next_epoch(resumed), third);
}

TEST(RandomSamplerResumed, AfterTheLastBatchLeavesThatEpochEmpty) {
  RandomSampler stopped(10, 4);
  stopped.reset();
  ASSERT_EQ(stopped.next(10)->size(), 10U);
  const std::string bytes = saved(stopped);  // within the loop, before it has found its end
  RandomSampler resumed(10, 4);
  load(resumed, bytes);
  EXPECT_TRUE(next_epoch(resumed).empty());
  EXPECT_EQ(resumed.epoch(), 0U);
  next_epoch(resumed);
  EXPECT_EQ(resumed.epoch(), 1U);
}

TEST(RandomSamplerResumed, BetweenEpochsStartsTheNext) {
  for (const bool drained : {true, false}) {
    RandomSampler stopped(10, 4);
    stopped.reset();
    static_cast<void>(stopped.next(8));
    if (drained) rest_of_epoch(stopped, 8);
    stopped.finish_epoch();
    const std::string bytes = saved(stopped);
    RandomSampler resumed(10, 4), unbroken(10, 4);
    load(resumed, bytes);
    unbroken.seek(1);
    EXPECT_EQ(next_epoch(resumed), next_epoch(unbroken));
    EXPECT_EQ(resumed.epoch(), 1U);
  }
}

TEST(RandomSamplerRefuses, SizesAndPositionsThatDoNotFit) {
  EXPECT_THROW(RandomSampler(0), Error);
  RandomSampler ten(10), eleven(11);
  EXPECT_THROW(ten.seek(0, 11), Error);
  const std::string bytes = saved(ten);
  EXPECT_THROW(load(eleven, bytes), Error);
}

TEST(RandomSamplerSize, CanChangeWithANewEpoch) {
  RandomSampler sampler(10, 2);
  sampler.reset(6);
  EXPECT_TRUE(is_permutation_of_all(rest_of_epoch(sampler, 4), 6));
}

}  // namespace
}  // namespace podaq
