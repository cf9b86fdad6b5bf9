#include "amc/classify/frame_classifier.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/data/iq_frame.h"

namespace podaq::amc {
namespace {

std::string text_of(const std::vector<Port>& ports) {
  std::string text;
  for (const Port& port : ports) {
    text += concat(text.empty() ? "" : ", ", port.name, " {");
    for (std::size_t i = 0; i < port.shape.size(); ++i) text += concat(i == 0 ? "" : ", ", port.shape[i]);
    text += "}";
  }
  return text;
}

void require_classifier(const Model& model) {
  const auto& inputs = model.inputs();
  const auto& outputs = model.outputs();
  if (inputs.size() != 1 || inputs[0].shape.size() != 2 || inputs[0].shape[0] != 2 || inputs[0].shape[1] < 1)
    throw Error(ErrorCode::invalid_argument,
                concat("the network reads ", text_of(inputs), "; a classifier of signals reads one input {2, L}"));
  if (outputs.size() != 1 || outputs[0].shape.size() != 1)
    throw Error(ErrorCode::invalid_argument,
                concat("the network gives ", text_of(outputs), "; a classifier gives one output {classes}"));
}

std::vector<std::string> class_names_of(const Model& model) {
  std::vector<std::string> names;
  const auto entry = model.metadata().find("classes");
  if (entry != model.metadata().end()) {
    const std::string& text = entry->second;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      names.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  if (names.size() != model.outputs()[0].size())
    throw Error(ErrorCode::invalid_argument,
                concat("the file's metadata name ", names.size(), " classes, the network has ",
                       model.outputs()[0].size(), " outputs"));
  return names;
}

}  // namespace

FrameClassifier::FrameClassifier(Model model) : runner_((require_classifier(model), std::move(model))) {
  frame_length_ = static_cast<std::size_t>(runner_.model().inputs()[0].shape[1]);
  class_names_ = class_names_of(runner_.model());
  outputs_.resize(class_names_.size());
  probabilities_.resize(class_names_.size());
}

std::span<const double> FrameClassifier::classify(std::span<float> frame) {
  scale_to_unit_power(frame);
  runner_.run(frame, outputs_);
  const double largest = *std::ranges::max_element(outputs_);
  double sum = 0;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    probabilities_[i] = std::exp(double{outputs_[i]} - largest);
    sum += probabilities_[i];
  }
  for (double& probability : probabilities_) probability /= sum;
  return probabilities_;
}

}  // namespace podaq::amc
