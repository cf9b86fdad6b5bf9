#include "podaq/data/sigmf.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/core/text.h"

namespace podaq {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t largest_metadata = std::uint64_t{256} << 20;
constexpr std::uint64_t most_channels = 1024;

/// One JSON object of the metadata, and where it stands, for error texts.
class Fields {
 public:
  Fields(const Json& object, const std::string& file, std::string where)
      : object_(object), file_(file), where_(std::move(where)) {
    if (!object.is_object()) refuse("", "must be an object");
  }

  [[nodiscard]] std::optional<std::uint64_t> count(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_unsigned()) refuse(key, "must be a whole number, 0 or more");
    return value->get<std::uint64_t>();
  }

  [[nodiscard]] std::uint64_t required_count(const char* key) const {
    const auto value = count(key);
    if (!value) refuse(key, "is missing");
    return *value;
  }

  [[nodiscard]] std::optional<double> number(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number() || !std::isfinite(value->get<double>())) refuse(key, "must be a finite number");
    return value->get<double>();
  }

  [[nodiscard]] std::optional<std::string> text(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) refuse(key, "must be a string");
    return value->get<std::string>();
  }

  [[nodiscard]] bool flag(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) refuse(key, "must be true or false");
    return value->get<bool>();
  }

  /// The objects of an array that may be missing.
  [[nodiscard]] std::vector<Fields> objects(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_array()) refuse(key, "must be an array");
    std::vector<Fields> all;
    for (const Json& element : *value) all.emplace_back(element, file_, concat(key, "[", all.size(), "]"));
    return all;
  }

  [[nodiscard]] Fields object(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) refuse(key, "is missing");
    return {*value, file_, key};
  }

  [[noreturn]] void refuse(std::string_view key, std::string_view fault) const {
    throw Error(ErrorCode::format, concat("'", file_, "': ", where_, where_.empty() || key.empty() ? "" : ".", key,
                                          where_.empty() && key.empty() ? "the whole " : " ", fault));
  }

 private:
  [[nodiscard]] const Json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  const Json& object_;
  const std::string& file_;
  std::string where_;
};

Json parse_json(std::string_view text, const std::string& name) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::format, concat("'", name, "' is no JSON: ", error.what()));
  }
}

void read_global(const Fields& global, const std::string& name, SigMfRecording& recording) {
  const auto datatype = global.text("core:datatype");
  if (!datatype) global.refuse("core:datatype", "is missing");
  recording.format = parse_iq_format(*datatype, concat("'", name, "', global.core:datatype"));
  if (global.flag("core:metadata_only"))
    throw Error(ErrorCode::unsupported,
                concat("'", name, "': global.core:metadata_only is true: there are no samples"));
  const std::uint64_t channels = global.count("core:num_channels").value_or(1);
  if (channels < 1 || channels > most_channels)
    global.refuse("core:num_channels", concat("is ", channels, "; it must be in [1, ", most_channels, "]"));
  recording.channels = static_cast<int>(channels);
  recording.sample_rate_hz = global.number("core:sample_rate");
  if (recording.sample_rate_hz && *recording.sample_rate_hz <= 0)
    global.refuse("core:sample_rate", concat("is ", *recording.sample_rate_hz, "; it must be more than 0"));
  recording.offset = global.count("core:offset").value_or(0);
  recording.dataset = global.text("core:dataset").value_or("");
}

/// The captures as the file has them, `sample_count` still unknown; those before the first one are a capture too.
std::vector<SigMfCapture> read_captures(const std::vector<Fields>& entries, std::uint64_t offset) {
  std::vector<SigMfCapture> captures;
  for (const Fields& entry : entries) {
    const std::uint64_t first = entry.required_count("core:sample_start");
    if (first < offset)
      entry.refuse("core:sample_start", concat("is ", first, ", before the data's first sample, ", offset));
    const std::uint64_t own_first = first - offset;
    if (!captures.empty() && own_first < captures.back().first_sample)
      entry.refuse("core:sample_start", concat("is ", first, ", before that of the capture that comes first"));
    if (captures.empty() && own_first > 0) captures.emplace_back();
    captures.push_back({.first_sample = own_first,
                        .header_bytes = entry.count("core:header_bytes").value_or(0),
                        .global_index = entry.count("core:global_index"),
                        .frequency_hz = entry.number("core:frequency")});
  }
  if (captures.empty()) captures.emplace_back();
  return captures;
}

/// Samples of one channel in the data, from the bytes that are no samples.
std::uint64_t count_samples(const SigMfRecording& recording, const Fields& global, std::uint64_t data_bytes) {
  std::uint64_t others = global.count("core:trailing_bytes").value_or(0);
  bool overflow = false;
  for (const SigMfCapture& capture : recording.captures)
    overflow = overflow || __builtin_add_overflow(others, capture.header_bytes, &others);
  if (overflow || others > data_bytes)
    global.refuse("core:trailing_bytes",
                  concat("and the captures' core:header_bytes sum to ", overflow ? "more than 2^64" : concat(others),
                         " bytes; the data have ", data_bytes));
  const std::uint64_t stride = sample_bytes(recording.format) * static_cast<std::uint64_t>(recording.channels);
  const std::uint64_t left_over = (data_bytes - others) % stride;
  if (left_over != 0)
    global.refuse("core:datatype",
                  concat("and core:num_channels make samples of ", stride, " bytes; the data end with ", left_over,
                         " bytes left over at byte ", data_bytes - left_over));
  return (data_bytes - others) / stride;
}

void count_capture_samples(SigMfRecording& recording, const std::vector<Fields>& entries) {
  auto& captures = recording.captures;
  const std::size_t unnamed = captures.size() - entries.size();
  std::uint64_t end = recording.sample_count;
  for (std::size_t i = captures.size(); i-- > 0;) {
    if (captures[i].first_sample > end)
      entries[i - unnamed].refuse("core:sample_start",
                                  concat("is ", captures[i].first_sample + recording.offset,
                                         ", past the data's end, sample ", recording.offset + recording.sample_count));
    captures[i].sample_count = end - captures[i].first_sample;
    end = captures[i].first_sample;
  }
}

SigMfAnnotation read_annotation(const Fields& entry, const SigMfRecording& recording) {
  const std::uint64_t first = entry.required_count("core:sample_start");
  const std::uint64_t end = recording.offset + recording.sample_count;
  if (first < recording.offset || first > end)
    entry.refuse("core:sample_start",
                 concat("is ", first, ", outside the data's samples ", recording.offset, " to ", end, " (exclusive)"));
  const std::uint64_t count = entry.count("core:sample_count").value_or(end - first);
  if (count > end - first)
    entry.refuse("core:sample_count",
                 concat("is ", count, ": from sample ", first, " on that goes past the data's end, ", end));
  return {
      .first_sample = first - recording.offset, .sample_count = count, .label = entry.text("core:label").value_or("")};
}

/// The data file that the metadata name. A name with folders in it could lead anywhere.
std::filesystem::path data_beside(const std::filesystem::path& metadata, const std::string& dataset) {
  if (dataset.empty()) return std::filesystem::path(metadata).replace_extension(".sigmf-data");
  if (std::filesystem::path(dataset).filename() != dataset || dataset == "." || dataset == "..")
    throw Error(ErrorCode::format, concat("'", metadata.string(), "': global.core:dataset is '", dataset,
                                          "'; it must be the name of a file in the same folder"));
  return metadata.parent_path() / dataset;
}

std::string dataset_named_in(std::string_view text, const std::string& name) {
  const Json document = parse_json(text, name);
  return Fields(document, name, "").object("global").text("core:dataset").value_or("");
}

}  // namespace

SigMfRecording parse_sigmf(std::string_view text, const std::string& name, std::uint64_t data_bytes) {
  const Json document = parse_json(text, name);
  const Fields root(document, name, "");
  const Fields global = root.object("global");
  SigMfRecording recording;
  read_global(global, name, recording);
  const auto capture_entries = root.objects("captures");
  recording.captures = read_captures(capture_entries, recording.offset);
  recording.sample_count = count_samples(recording, global, data_bytes);
  if (recording.offset + recording.sample_count < recording.offset)
    global.refuse("core:offset", concat("is ", recording.offset, ": the last sample's index would pass 2^64"));
  count_capture_samples(recording, capture_entries);
  for (const Fields& entry : root.objects("annotations"))
    recording.annotations.push_back(read_annotation(entry, recording));
  return recording;
}

SigMfFiles load_sigmf(const std::filesystem::path& metadata) {
  const auto bytes = read_file(metadata, largest_metadata);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto data = data_beside(metadata, dataset_named_in(text, metadata.string()));
  if (!std::filesystem::is_regular_file(data))
    throw Error(ErrorCode::io, concat("'", metadata.string(), "': its data '", data.string(), "' do not exist"));
  return {.recording = parse_sigmf(text, metadata.string(), std::filesystem::file_size(data)), .data = data};
}

IqLayout layout_of(const SigMfRecording& recording, int channel) {
  if (channel < 0 || channel >= recording.channels)
    throw Error(ErrorCode::invalid_argument,
                concat("channel is ", channel, "; the recording has channels 0 to ", recording.channels - 1));
  IqLayout layout{.format = recording.format, .channels = recording.channels, .channel = channel, .segments = {}};
  for (const SigMfCapture& capture : recording.captures)
    layout.segments.push_back({.header_bytes = capture.header_bytes, .samples = capture.sample_count});
  return layout;
}

SigMfLabels::SigMfLabels(const SigMfRecording& recording) {
  for (const SigMfAnnotation& annotation : recording.annotations)
    if (!annotation.label.empty())
      reaches_.push_back({.begin = annotation.first_sample,
                          .end = annotation.first_sample + annotation.sample_count,
                          .label = annotation.label});
  std::ranges::stable_sort(reaches_, {}, &Reach::begin);
  for (std::size_t i = 1; i < reaches_.size(); ++i) {
    if (reaches_[i].end >= reaches_[i - 1].end) continue;
    reaches_[i].end = reaches_[i - 1].end;
    reaches_[i].label = reaches_[i - 1].label;
  }
}

std::string_view SigMfLabels::covering(std::uint64_t first, std::uint64_t count) const {
  const auto after = std::ranges::upper_bound(reaches_, first, {}, &Reach::begin);
  if (after == reaches_.begin()) return {};
  const Reach& reach = *std::prev(after);
  return count <= reach.end && first <= reach.end - count ? std::string_view(reach.label) : std::string_view();
}

}  // namespace podaq
