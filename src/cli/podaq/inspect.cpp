#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>

#include "cli/podaq/verbs.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/format/file.h"

namespace podaq::cli {
namespace {

std::string shape_text(const Shape& shape) {
  std::string out;
  for (const std::int64_t size : shape) out += out.empty() ? std::to_string(size) : "x" + std::to_string(size);
  return out.empty() ? "scalar" : out;
}

std::int64_t count_zeros(const Tensor& tensor) {
  const auto zeros = [](auto values) { return static_cast<std::int64_t>(std::count(values.begin(), values.end(), 0)); };
  return tensor.dtype == DType::s8 ? zeros(elements<std::int8_t>(tensor)) : zeros(elements<float>(tensor));
}

void print_sections(const FileReport& report) {
  fmt::print("{:<12} {:>10} {:>10} {:>10} {:<8} {}\n", "section", "offset", "stored", "decoded", "coder", "checksum");
  for (const FileReport::Section& section : report.sections)
    fmt::print("{:<12} {:>10} {:>10} {:>10} {:<8} {}\n", section.name, section.offset, section.stored_bytes,
               section.decoded_bytes, section.coder, section.checksum_matches ? "ok" : "WRONG");
}

void print_layers(const Graph& graph) {
  fmt::print("{:<24} {:<12} {:>14} {:>14} {:>6} {:>9} {:>9}\n", "layer", "op", "output", "weight", "bits", "weights",
             "sparsity");
  std::int64_t all_weights = 0;
  std::int64_t all_zeros = 0;
  for (const Node& node : graph.nodes) {
    const Value& output = graph.values.at(node.output);
    fmt::print("{:<24} {:<12} {:>14} ", node.name, name_of(node.op), shape_text(output.shape));
    if (!has_weights(node.op)) {
      fmt::print("\n");
      continue;
    }
    const Tensor& weight = tensor_at(graph, node.tensors.at(0));
    const std::int64_t count = element_count(weight.shape);
    const std::int64_t zeros = count_zeros(weight);
    all_weights += count;
    all_zeros += zeros;
    fmt::print("{:>14} {:>6} {:>9} {:>8.2f}%\n", shape_text(weight.shape),
               weight.dtype == DType::s8 ? std::to_string(weight.bits) : "f32", count,
               count == 0 ? 0.0 : 100.0 * static_cast<double>(zeros) / static_cast<double>(count));
  }
  if (all_weights > 0)
    fmt::print("{} weights, {} of them zero ({:.2f} %)\n", all_weights, all_zeros,
               100.0 * static_cast<double>(all_zeros) / static_cast<double>(all_weights));
}

void inspect_file(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path, ReadOptions{}.max_decoded_bytes);
  const FileReport report = inspect(bytes);
  fmt::print("{}: .podaq version {}, {} bytes\n", path.string(), report.version, report.file_bytes);
  fmt::print("features: required {:#x}, optional {:#x}\n", report.required_features, report.optional_features);
  fmt::print("sha256: {} ({})\n\n", report.sha256, report.sha256_matches ? "ok" : "WRONG");
  print_sections(report);
  const bool sound = report.sha256_matches && std::all_of(report.sections.begin(), report.sections.end(),
                                                          [](const auto& section) { return section.checksum_matches; });
  if (!sound)
    throw Error(ErrorCode::format, fmt::format("{}: a checksum is wrong; the file is damaged, fetch it again or write "
                                               "it anew",
                                               path.string()));
  const Graph graph = decode(bytes);
  fmt::print("\n");
  for (const auto& [key, value] : graph.metadata) fmt::print("{}: {}\n", key, value);
  for (const ValueId id : graph.inputs)
    fmt::print("input {}: {}\n", graph.values[id].name, shape_text(graph.values[id].shape));
  for (const ValueId id : graph.outputs)
    fmt::print("output {}: {}\n", graph.values[id].name, shape_text(graph.values[id].shape));
  fmt::print("\n");
  print_layers(graph);
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("inspect", "Show a file's layers, shapes, bits, sparsity, sections and checksums");
  auto path = std::make_shared<std::string>();
  verb->add_option("file", *path, "A .podaq file")->required();
  verb->callback([path] { inspect_file(*path); });
}

}  // namespace podaq::cli
