#include "study/point_json.h"

#include <cstddef>
#include <span>
#include <vector>

#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/core/text.h"
#include "study/file_hash.h"

namespace podaq::study_detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t largest_result = 1 << 26;

Json json_of(const Score& score) {
  return Json::array({score.right, score.total});
}

Score score_in(const Json& json) {
  return {.right = json.at(0).get<std::int64_t>(), .total = json.at(1).get<std::int64_t>()};
}

Json json_of(const Latency& latency) {
  return Json::array({latency.p10_us, latency.median_us, latency.p90_us});
}

Latency latency_in(const Json& json) {
  return {
      .median_us = json.at(1).get<double>(), .p10_us = json.at(0).get<double>(), .p90_us = json.at(2).get<double>()};
}

Json json_of(const FileMeasurement& measured) {
  Json json;
  json["right_of_total"] = json_of(measured.all);
  if (measured.high_groups) json["right_of_total_high_groups"] = json_of(*measured.high_groups);
  Json& groups = json["right_of_total_by_group"] = Json::object();
  for (const auto& [group, score] : measured.by_group) groups[std::to_string(group)] = json_of(score);
  json["sparsity"] = measured.sparsity;
  json["parameters"] = measured.parameters;
  json["file_bytes"] = measured.file_bytes;
  json["ratio"] = measured.ratio;
  json["agreement"] = measured.agreement;
  json["section_bytes"] = measured.section_bytes;
  json["figures"] = measured.figures;
  Json& confusion = json["confusion_by_group"] = Json::object();
  for (const auto& [group, counts] : measured.confusion) confusion[std::to_string(group)] = counts;
  return json;
}

FileMeasurement measurement_in(const Json& json) {
  FileMeasurement measured;
  measured.all = score_in(json.at("right_of_total"));
  if (json.contains("right_of_total_high_groups"))
    measured.high_groups = score_in(json.at("right_of_total_high_groups"));
  for (const auto& [group, score] : json.at("right_of_total_by_group").items())
    measured.by_group[std::stoi(group)] = score_in(score);
  measured.sparsity = json.at("sparsity").get<double>();
  measured.parameters = json.at("parameters").get<std::int64_t>();
  measured.file_bytes = json.at("file_bytes").get<std::uint64_t>();
  measured.ratio = json.at("ratio").get<double>();
  measured.agreement = json.at("agreement").get<double>();
  measured.section_bytes = json.at("section_bytes").get<std::map<std::string, std::uint64_t>>();
  measured.figures = json.at("figures").get<std::map<std::string, double>>();
  for (const auto& [group, counts] : json.at("confusion_by_group").items())
    measured.confusion[std::stoi(group)] = counts.get<std::vector<std::int64_t>>();
  return measured;
}

PointResult point_in(const Json& json) {
  return {.strategy = json.at("strategy").get<std::string>(),
          .seed = json.at("seed").get<std::uint64_t>(),
          .recipe = json.at("recipe").get<std::string>(),
          .teacher = json.at("teacher").get<std::string>(),
          .shared_epochs = json.at("shared_epochs").get<double>(),
          .own_epochs = json.at("own_epochs").get<double>(),
          .steps = json.at("steps").get<std::int64_t>(),
          .seconds = json.at("seconds").get<double>(),
          .validation = json.at("validation_by_epoch").get<std::vector<double>>(),
          .validation_accuracy = json.at("validation_accuracy").get<double>(),
          .measured = measurement_in(json.at("measured")),
          .podaq = latency_in(json.at("latency_us_podaq")),
          .libtorch = latency_in(json.at("latency_us_libtorch")),
          .host = json.at("host").get<std::string>(),
          .class_names = json.at("class_names").get<std::vector<std::string>>(),
          .file_sha256 = json.at("file_sha256").get<std::string>(),
          .file = json.at("file").get<std::string>()};
}

}  // namespace

Json to_json(const PointResult& point, const std::string& inputs) {
  Json json;
  json["strategy"] = point.strategy;
  json["seed"] = point.seed;
  json["recipe"] = point.recipe;
  json["teacher"] = point.teacher;
  json["shared_epochs"] = point.shared_epochs;
  json["own_epochs"] = point.own_epochs;
  json["steps"] = point.steps;
  json["seconds"] = point.seconds;
  json["validation_by_epoch"] = point.validation;
  json["validation_accuracy"] = point.validation_accuracy;
  json["measured"] = json_of(point.measured);
  json["latency_us_podaq"] = json_of(point.podaq);
  json["latency_us_libtorch"] = json_of(point.libtorch);
  json["host"] = point.host;
  json["class_names"] = point.class_names;
  json["file"] = point.file.filename().string();
  json["file_sha256"] = point.file_sha256;
  json["inputs"] = inputs;
  return json;
}

void write_point(const PointResult& point, const std::string& inputs, const std::filesystem::path& path) {
  const std::string text = to_json(point, inputs).dump(1) + "\n";
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

std::optional<PointResult> read_point(const std::filesystem::path& path, const std::string& inputs) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::vector<std::byte> bytes = read_file(path, largest_result);
  PointResult point;
  try {
    const Json json = Json::parse(reinterpret_cast<const char*>(bytes.data()),
                                  reinterpret_cast<const char*>(bytes.data()) + bytes.size());
    if (json.at("inputs").get<std::string>() != inputs) throw std::invalid_argument("it is a result of other inputs");
    point = point_in(json);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::format, concat("result '", path.string(), "' cannot be read: ", error.what(),
                                          "; delete it to train this point again"));
  }
  point.file = path.parent_path() / point.file;
  if (!std::filesystem::exists(point.file)) return std::nullopt;
  if (hash_of_file(point.file) != point.file_sha256) return std::nullopt;
  return point;
}

}  // namespace podaq::study_detail
