#include "runtime/tuning_file.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <vector>

#include "podaq/core/file.h"
#include "podaq/core/text.h"
#include "podaq/core/version.h"
#include "podaq/runtime/tuning.h"

namespace podaq {

namespace runtime_detail {

namespace {

constexpr std::string_view format = "podaq-tuning 1";
constexpr double largest_ns = 1e6;

std::string key_of(const CpuIdentity& cpu) {
  return concat(cpu.vendor, "-", cpu.family, "-", cpu.model, "-", cpu.stepping);
}

std::string header_of(const CpuIdentity& cpu) {
  return concat(format, " ", version, " ", key_of(cpu), "\n");
}

// Cuts `prefix` off the text; false where it does not start with it.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Cuts a time off the text; false where it starts with none.
bool take_time(std::string_view& text, double& ns) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ns);
  if (error != std::errc() || !std::isfinite(ns) || std::signbit(ns) || ns > largest_ns) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::string tuning_text(const CostCoefficients& cost, const CpuIdentity& cpu) {
  std::string text = header_of(cpu);
  for (const NamedCoefficient& coefficient : named_coefficients)
    text += concat(coefficient.name, " ", cost.*coefficient.member, "\n");
  text += "end\n";
  return text;
}

std::optional<CostCoefficients> parse_tuning(std::string_view text, const CpuIdentity& cpu) {
  CostCoefficients cost;
  if (!take(text, header_of(cpu))) return std::nullopt;
  for (const NamedCoefficient& coefficient : named_coefficients)
    if (!take(text, coefficient.name) || !take(text, " ") || !take_time(text, cost.*coefficient.member) ||
        !take(text, "\n"))
      return std::nullopt;
  if (text != "end\n") return std::nullopt;
  return cost;
}

CostCoefficients read_tuning(const std::filesystem::path& path) {
  constexpr std::uint64_t most_bytes = 65536;
  if (path.empty()) return {};
  try {
    const std::vector<std::byte> bytes = read_file(path, most_bytes);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return parse_tuning(text, identify_cpu()).value_or(CostCoefficients{});
  } catch (const std::exception&) {
    return {};
  }
}

std::filesystem::path cached_tuning_file(const CpuIdentity& cpu) {
  const auto folder_of = [](const char* variable) {
    const char* folder = std::getenv(variable);
    // A relative folder is to be ignored, says the XDG base directory specification.
    return folder != nullptr && folder[0] == '/' ? std::filesystem::path(folder) : std::filesystem::path();
  };
  std::filesystem::path cache = folder_of("XDG_CACHE_HOME");
  if (cache.empty()) {
    const std::filesystem::path home = folder_of("HOME");
    if (home.empty()) return {};
    cache = home / ".cache";
  }
  return cache / "podaq" / concat(key_of(cpu), ".tuning");
}

}  // namespace runtime_detail

std::filesystem::path selected_tuning_file() {
  const char* given = std::getenv("PODAQ_TUNING");
  if (given == nullptr || given[0] == '\0') return runtime_detail::cached_tuning_file(identify_cpu());
  return std::string_view(given) == "off" ? std::filesystem::path() : std::filesystem::path(given);
}

}  // namespace podaq
