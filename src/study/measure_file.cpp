#include "study/measure_file.h"

#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "podaq/core/file.h"
#include "podaq/format/file.h"
#include "podaq/prune/masks.h"
#include "podaq/runtime/runner.h"

namespace podaq::study_detail {
namespace {

std::int64_t parameter_count(const GraphModule& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters())
    if (parameter.requires_grad()) count += parameter.numel();
  return count;
}

// How much of the network's conv and linear weights the file no longer holds: as zeros, or with channels.
double weight_sparsity(const Graph& network, const Graph& file) {
  std::int64_t total = 0;
  for (const WeightedLayer& layer : weighted_layers(network))
    total += element_count(tensor_at(network, layer.weight).shape);
  std::int64_t nonzeros = 0;
  for (const WeightedLayer& layer : weighted_layers(file)) nonzeros += count_nonzeros(tensor_at(file, layer.weight));
  return total == 0 ? 0.0 : 1.0 - static_cast<double>(nonzeros) / static_cast<double>(total);
}

std::vector<std::int32_t> to_vector(const torch::Tensor& classes) {
  const torch::Tensor narrow = classes.to(torch::kInt).contiguous();
  return {narrow.data_ptr<std::int32_t>(), narrow.data_ptr<std::int32_t>() + narrow.numel()};
}

std::map<std::int32_t, std::vector<std::int64_t>> confusion_of(std::span<const std::int32_t> predictions,
                                                               const Dataset& dataset) {
  const std::size_t classes = dataset.class_names.size();
  std::map<std::int32_t, std::vector<std::int64_t>> confusion;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    std::vector<std::int64_t>& counts = confusion[dataset.groups.empty() ? 0 : dataset.groups[i]];
    counts.resize(classes * classes);
    ++counts[static_cast<std::size_t>(dataset.labels[i]) * classes + static_cast<std::size_t>(predictions[i])];
  }
  return confusion;
}

std::map<std::string, std::uint64_t> bytes_by_section(const FileReport& report) {
  std::map<std::string, std::uint64_t> bytes = {{"header", report.file_bytes}};
  for (const FileReport::Section& section : report.sections) {
    bytes[section.name] += section.stored_bytes;
    bytes["header"] -= section.stored_bytes;
  }
  return bytes;
}

}  // namespace

FileMeasurement measure_file(const std::filesystem::path& file, const Task& task, GraphModule& trained,
                             const GraphModule& whole, const Dataset& test) {
  const std::vector<std::byte> bytes = read_file(file, ReadOptions{}.max_decoded_bytes);
  const Graph graph = decode(bytes);
  Evaluation evaluation = evaluate(Model(graph), test, 1);
  FileMeasurement measured;
  measured.all = evaluation.all;
  if (!evaluation.by_group.empty()) measured.high_groups = score_from_group(evaluation, task.high_group);
  measured.confusion = confusion_of(evaluation.predictions, test);
  measured.sparsity = weight_sparsity(whole.graph(), graph);
  measured.parameters = parameter_count(whole);
  measured.file_bytes = bytes.size();
  measured.ratio = 4.0 * static_cast<double>(measured.parameters) / static_cast<double>(bytes.size());
  measured.agreement = agreement(evaluation.predictions, to_vector(predict(trained, test)));
  measured.section_bytes = bytes_by_section(inspect(bytes));
  measured.figures = figures_of(graph, task);
  measured.by_group = std::move(evaluation.by_group);
  return measured;
}

std::map<std::string, double> figures_of(const Graph& graph, const Task& task) {
  std::map<std::string, double> figures;
  for (const Figure& figure : task.figures) figures[figure.name] = figure.of_file(graph);
  return figures;
}

std::vector<Latency> time_files(std::span<const std::filesystem::path> files, const TaskNetwork& network) {
  torch::set_num_threads(1);
  network.module->eval();
  const torch::NoGradGuard no_grad;
  std::vector<std::int64_t> shape = network.captured->graph().values.at(network.captured->graph().inputs.at(0)).shape;
  shape.insert(shape.begin(), 1);
  const torch::Tensor frame = torch::randn(shape);
  const std::span<const float> sample(frame.const_data_ptr<float>(), static_cast<std::size_t>(frame.numel()));
  std::vector<Contestant> contestants = {{"libtorch", [&] { network.forward(frame); }}};
  std::vector<std::unique_ptr<Runner>> runners;
  std::vector<std::vector<float>> logits;
  logits.reserve(files.size());
  for (const std::filesystem::path& file : files) {
    const Model model = Model::load(file);
    logits.emplace_back(model.outputs()[0].size());
    runners.push_back(std::make_unique<Runner>(model));
    contestants.push_back(
        {file.string(), [&runner = *runners.back(), sample, &output = logits.back()] { runner.run(sample, output); }});
  }
  return measure_latency(contestants);
}

}  // namespace podaq::study_detail
