#include <algorithm>
#include <nlohmann/json.hpp>

#include "podaq/study/study_report.h"
#include "study/point_json.h"

namespace podaq {
namespace {

using Json = nlohmann::ordered_json;

Json json_of_statistic(const Statistic& statistic) {
  return {{"mean", statistic.mean}, {"deviation", statistic.deviation}, {"seeds", statistic.count}};
}

Json json_of_statistics(const std::map<std::string, Statistic>& statistics) {
  Json json = Json::object();
  for (const auto& [name, statistic] : statistics) json[name] = json_of_statistic(statistic);
  return json;
}

Json json_of_difference(const PairedDifference& difference) {
  Json json = {{"reference", difference.reference}, {"accuracy", json_of_statistic(difference.accuracy)}};
  if (difference.high_groups) json["accuracy_high_groups"] = json_of_statistic(*difference.high_groups);
  return json;
}

Json json_of_groups(const RowSummary& row) {
  Json groups = Json::array();
  for (const auto& [group, score] : row.by_group) {
    const Interval interval = confidence_interval(score);
    groups.push_back({{"group", group},
                      {"accuracy", score.accuracy()},
                      {"ci95", {interval.lowest, interval.highest}},
                      {"answers", score.total}});
  }
  return groups;
}

Json json_of_row(const RowSummary& row) {
  Json json;
  json["strategy"] = row.strategy;
  json["teacher"] = row.teacher;
  json["epochs"] = row.epochs;
  json["accuracy"] = json_of_statistic(row.accuracy);
  if (row.high_groups) json["accuracy_high_groups"] = json_of_statistic(*row.high_groups);
  if (row.to_dense) json["to_dense"] = json_of_difference(*row.to_dense);
  if (row.to_distilled_dense) json["to_distilled_dense"] = json_of_difference(*row.to_distilled_dense);
  json["sparsity"] = json_of_statistic(row.sparsity);
  json["file_bytes"] = json_of_statistic(row.file_bytes);
  json["ratio"] = json_of_statistic(row.ratio);
  json["is_on_front"] = row.is_on_front;
  json["latency_us_podaq"] = json_of_statistic(row.podaq_us);
  json["latency_us_libtorch"] = json_of_statistic(row.libtorch_us);
  json["speedup"] = json_of_statistic(row.speedup);
  json["agreement"] = json_of_statistic(row.agreement);
  json["training_seconds"] = json_of_statistic(row.seconds);
  json["figures"] = json_of_statistics(row.figures);
  json["section_bytes"] = json_of_statistics(row.section_bytes);
  json["by_group"] = json_of_groups(row);
  json["recipe"] = row.recipe;
  return json;
}

Json json_of_point(PointResult point, const std::vector<std::int32_t>& groups) {
  std::erase_if(point.measured.confusion,
                [&](const auto& entry) { return std::ranges::find(groups, entry.first) == groups.end(); });
  Json json = study_detail::to_json(point, {});
  for (const char* key : {"recipe", "class_names", "inputs"})
    json.erase(key);  // the same for all points, or in the row
  return json;
}

}  // namespace

std::string to_json(const StudyResult& result, const std::string& command) {
  Json json;
  json["task"] = result.task;
  json["description"] = result.description;
  json["command"] = command;
  json["host"] = result.host;
  json["seconds"] = result.seconds;
  json["seeds"] = result.seeds;
  json["test_frames"] = result.points.front().measured.all.total;
  json["parameters"] = result.points.front().measured.parameters;
  json["classes"] = result.class_names;
  json["high_group"] = result.high_group;
  json["rows"] = Json::array();
  for (const RowSummary& row : summarize(result)) json["rows"].push_back(json_of_row(row));
  json["points"] = Json::array();
  for (const PointResult& point : result.points)
    json["points"].push_back(json_of_point(point, result.confusion_groups));
  return json.dump(1) + "\n";
}

}  // namespace podaq
