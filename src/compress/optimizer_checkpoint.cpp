#include "compress/optimizer_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "compress/checkpoint_tensors.h"

namespace podaq::compress_detail {
namespace {

// "group 0: conv1.weight" for each parameter, in the optimizer's order.
std::vector<std::string> parameter_places(const GraphModule& model, const torch::optim::Optimizer& optimizer) {
  std::map<const void*, std::string> names;
  for (const auto& item : model.named_parameters()) names.emplace(item.value().unsafeGetTensorImpl(), item.key());
  std::vector<std::string> places;
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group)
    for (const torch::Tensor& parameter : optimizer.param_groups()[group].params()) {
      const auto name = names.find(parameter.unsafeGetTensorImpl());
      places.push_back(
          fmt::format("group {}: {}", group, name == names.end() ? "a parameter of no layer" : name->second));
    }
  return places;
}

std::vector<std::string> read_places(torch::serialize::InputArchive& archive) {
  c10::IValue places;
  archive.read("optimizer_parameters", places);
  std::vector<std::string> texts;
  for (const c10::IValue& place : places.toListRef()) texts.push_back(place.toStringRef());
  return texts;
}

std::string text_at(const std::vector<std::string>& places, std::size_t index) {
  return index < places.size() ? places[index] : "nothing";
}

}  // namespace

void write_optimizer(torch::serialize::OutputArchive& archive, const GraphModule& model,
                     const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive state(archive.compilation_unit());
  optimizer.save(state);
  archive.write("optimizer_kind", c10::IValue(std::string(typeid(optimizer).name())));
  archive.write("optimizer_parameters", c10::IValue(parameter_places(model, optimizer)));
  archive.write("optimizer", state);
}

void require_same_optimizer(const std::filesystem::path& path, torch::serialize::InputArchive& archive,
                            const GraphModule& model, const torch::optim::Optimizer& optimizer) {
  if (read_string(archive, "optimizer_kind") != typeid(optimizer).name())
    refuse_checkpoint(path, "was written with another kind of optimizer");
  const std::vector<std::string> saved = read_places(archive);
  const std::vector<std::string> own = parameter_places(model, optimizer);
  const auto difference = std::ranges::mismatch(saved, own);
  if (difference.in1 == saved.end() && difference.in2 == own.end()) return;
  const auto index = static_cast<std::size_t>(difference.in1 - saved.begin());
  refuse_checkpoint(path, fmt::format("the optimizer's parameter groups differ: parameter {} was '{}', is '{}' here",
                                      index, text_at(saved, index), text_at(own, index)));
}

void load_optimizer(const std::filesystem::path& path, torch::serialize::InputArchive& saved,
                    torch::optim::Optimizer& optimizer) {
  auto state = std::move(optimizer.state());
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
  for (const auto& group : optimizer.param_groups()) options.push_back(group.options().clone());
  optimizer.state().clear();
  const auto put_back = [&] {
    optimizer.state() = std::move(state);
    for (std::size_t i = 0; i < options.size(); ++i) optimizer.param_groups()[i].set_options(std::move(options[i]));
  };
  try {
    optimizer.load(saved);
  } catch (const c10::Error& error) {
    put_back();
    refuse_checkpoint(path, fmt::format("the optimizer's parameter groups differ: {}", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    put_back();
    refuse_checkpoint(path, fmt::format("the optimizer's state is damaged: {}", error.what()));
  }
}

}  // namespace podaq::compress_detail
