#include "runtime/slices.h"

#include <unistd.h>

#include <algorithm>

#include "runtime/arena.h"

namespace podaq::runtime_detail {

std::size_t choose_slice(const Plan& plan, std::size_t max_batch, std::size_t cache_bytes) {
  const bool has_large_weights = plan.weight_bytes > cache_bytes;
  const std::size_t budget = has_large_weights ? std::max(cache_bytes, plan.weight_bytes / 2) : cache_bytes / 4;
  std::size_t slice = 1;
  while (slice < max_batch && plan_arena(plan, 2 * slice).bytes <= budget) slice *= 2;
  return std::min(slice, max_batch);
}

std::size_t second_level_cache_bytes() {
  constexpr std::size_t usual = std::size_t{1} << 20;
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : usual;
}

std::size_t choose_workers(const Plan& plan, std::size_t batch, std::size_t threads) {
  // About 20 us on a CPU with AVX-512 VNNI: several times what waking a thread takes.
  constexpr std::size_t least_macs = 8'000'000;
  const std::size_t worth = std::max<std::size_t>(1, plan.macs * batch / least_macs);
  return std::max<std::size_t>(1, std::min({threads, batch, worth}));
}

}  // namespace podaq::runtime_detail
