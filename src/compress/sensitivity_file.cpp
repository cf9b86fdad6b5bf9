#include "compress/sensitivity_file.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"

namespace podaq::compress_detail {
namespace {

using nlohmann::json;

constexpr std::string_view format_name = "podaq sensitivity 1";
constexpr std::uint64_t largest_file = std::uint64_t{1} << 28;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& problem) {
  throw Error(ErrorCode::format,
              fmt::format("{}: {}; delete the file or name another to measure anew", path.string(), problem));
}

// JSON knows no NaN.
double loss_from(const json& number) {
  return number.is_null() ? std::numeric_limits<double>::quiet_NaN() : number.get<double>();
}

}  // namespace

std::string measurement_name(const std::string& layer, const LayerCandidate& candidate) {
  return fmt::format("{} {} {}", layer, candidate.sparsity, candidate.weight_bits);
}

std::optional<MeasuredLosses> read_measured_losses(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::vector<std::byte> bytes = read_file(path, largest_file);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const json root = json::parse(text, nullptr, false);
  if (root.is_discarded()) refuse(path, "is no JSON");
  try {
    if (root.at("format").get<std::string>() != format_name) refuse(path, "is of another format or version");
    MeasuredLosses measured{.subject = root.at("subject").get<std::string>(),
                            .baseline = root.at("baseline").get<double>()};
    if (!root.at("losses").is_object()) refuse(path, "has losses that are no table");
    for (const auto& [name, loss] : root.at("losses").items()) measured.losses[name] = loss_from(loss);
    return measured;
  } catch (const json::exception& error) {
    refuse(path, fmt::format("holds no sensitivity measurements ({})", error.what()));
  }
}

void write_measured_losses(const std::filesystem::path& path, const MeasuredLosses& measured) {
  json root = {{"format", format_name}, {"subject", measured.subject}, {"baseline", measured.baseline}};
  json& losses = root["losses"] = json::object();
  for (const auto& [name, loss] : measured.losses) losses[name] = std::isfinite(loss) ? json(loss) : json();
  const std::string text = root.dump(1) + '\n';
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace podaq::compress_detail
