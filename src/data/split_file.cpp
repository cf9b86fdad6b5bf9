#include "podaq/data/split_file.h"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/core/sha256.h"
#include "podaq/core/text.h"

namespace podaq {
namespace {

constexpr std::string_view format_name = "podaq-split";
constexpr int format_version = 1;
constexpr std::uint64_t largest_file = std::uint64_t{256} << 20;

void add_little_endian(Sha256& hash, std::span<const std::int32_t> values) {
  for (const std::int32_t value : values) {
    const auto bits = static_cast<std::uint32_t>(value);
    const std::array<std::byte, 4> bytes = {std::byte(bits), std::byte(bits >> 8), std::byte(bits >> 16),
                                            std::byte(bits >> 24)};
    hash.update(bytes);
  }
}

std::string digest_of(const Strata& strata) {
  Sha256 hash;
  add_little_endian(hash, strata.labels);
  add_little_endian(hash, strata.groups);
  return to_hexadecimal(hash.digest());
}

/// What is wrong with the parts of a data set of `rows` rows, if anything is.
std::optional<std::string> fault_of(const std::vector<std::vector<std::int64_t>>& parts, std::size_t rows) {
  std::vector<bool> taken(rows, false);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    std::int64_t last = -1;
    for (const std::int64_t row : parts[part]) {
      if (row < 0 || row >= static_cast<std::int64_t>(rows))
        return concat("parts[", part, "]: row ", row, " is outside 0 to ", rows, " − 1");
      if (row <= last) return concat("parts[", part, "]: row ", row, " follows row ", last, "; rows must be ascending");
      const auto position = static_cast<std::size_t>(row);
      if (taken[position]) return concat("parts[", part, "]: row ", row, " is in an earlier part too");
      taken[position] = true;
      last = row;
    }
  }
  return std::nullopt;
}

std::string to_ranges(const std::vector<std::int64_t>& rows) {
  std::string text;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    if (begin > 0) text += ' ';
    text += concat(rows[begin]);
    if (end > begin + 1) text += concat("-", rows[end - 1]);
    begin = end;
  }
  return text;
}

/// Reads the JSON document of one split file; names file and field where it is at fault.
class SplitReader {
 public:
  SplitReader(const std::filesystem::path& path, std::size_t rows) : path_(path), rows_(rows) {
    const auto bytes = read_file(path, largest_file);
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    document_ = nlohmann::json::parse(text, text + bytes.size(), nullptr, false);
    if (!document_.is_object()) refuse("is no JSON object");
    if (text_of("format") != format_name) refuse(concat("format: is not \"", format_name, "\""));
    if (integer_of("version") != format_version) refuse("version: is not 1, the only one that is known");
  }

  [[noreturn]] void refuse(const std::string& fault) const {
    throw Error(ErrorCode::format, concat("'", path_.string(), "': ", fault));
  }

  [[nodiscard]] std::string text_of(const char* name) const {
    const auto& value = field(name);
    if (!value.is_string()) refuse(concat(name, ": must be a string"));
    return value.get<std::string>();
  }

  [[nodiscard]] std::uint64_t integer_of(const char* name) const {
    const auto& value = field(name);
    if (!value.is_number_unsigned()) refuse(concat(name, ": must be a whole number, 0 or more"));
    return value.get<std::uint64_t>();
  }

  [[nodiscard]] std::vector<double> numbers_of(const char* name) const {
    const auto& value = field(name);
    std::vector<double> numbers;
    if (!value.is_array()) refuse(concat(name, ": must be an array of numbers"));
    for (const auto& element : value) {
      if (!element.is_number()) refuse(concat(name, ": must be an array of numbers"));
      numbers.push_back(element.get<double>());
    }
    return numbers;
  }

  [[nodiscard]] std::vector<std::vector<std::int64_t>> parts() const {
    const auto& value = field("parts");
    if (!value.is_array() || value.empty()) refuse("parts: must be an array of texts such as \"0-3 7\"");
    std::vector<std::vector<std::int64_t>> parts;
    std::size_t total = 0;
    for (const auto& element : value) {
      if (!element.is_string()) refuse("parts: must be an array of texts such as \"0-3 7\"");
      parts.push_back(rows_in(*element.get_ptr<const std::string*>(), concat("parts[", parts.size(), "]"), total));
    }
    return parts;
  }

 private:
  [[nodiscard]] const nlohmann::json& field(const char* name) const {
    const auto found = document_.find(name);
    if (found == document_.end()) refuse(concat(name, ": is missing"));
    return *found;
  }

  /// The rows that a text such as "0-3 7" names. `total` counts those of all parts: never more than the data set has.
  [[nodiscard]] std::vector<std::int64_t> rows_in(std::string_view text, const std::string& name,
                                                  std::size_t& total) const {
    std::vector<std::int64_t> rows;
    const char* position = text.data();
    const char* const end = text.data() + text.size();
    const auto number = [&] {
      std::int64_t value = -1;
      const auto [rest, error] = std::from_chars(position, end, value);
      if (error != std::errc() || value < 0)
        refuse(concat(name, ": a row number is expected at character ", position - text.data()));
      position = rest;
      return value;
    };
    while (position != end) {
      const std::int64_t first = number();
      std::int64_t last = first;
      if (position != end && *position == '-') {
        ++position;
        last = number();
      }
      if (last < first || last >= static_cast<std::int64_t>(rows_))
        refuse(concat(name, ": rows ", first, "-", last, " are no ascending rows of 0 to ", rows_, " − 1"));
      total += static_cast<std::size_t>(last - first) + 1;
      if (total > rows_) refuse(concat(name, ": the parts hold more than the ", rows_, " rows of the data set"));
      for (std::int64_t row = first; row <= last; ++row) rows.push_back(row);
      if (position == end) break;
      if (*position != ' ') refuse(concat(name, ": a space is expected at character ", position - text.data()));
      ++position;
    }
    return rows;
  }

  const std::filesystem::path& path_;
  std::size_t rows_;
  nlohmann::json document_;
};

}  // namespace

void write_split(const std::filesystem::path& path, const SplitFile& split, const Strata& strata) {
  if (const auto fault = fault_of(split.parts, strata.labels.size()))
    throw Error(ErrorCode::invalid_argument, concat("SplitFile.", *fault));
  nlohmann::ordered_json document;
  document["format"] = format_name;
  document["version"] = format_version;
  document["seed"] = split.options.seed;
  document["fractions"] = split.options.fractions;
  document["rows"] = strata.labels.size();
  document["strata_sha256"] = digest_of(strata);
  document["parts"] = nlohmann::ordered_json::array();
  for (const auto& part : split.parts) document["parts"].push_back(to_ranges(part));
  const std::string text = document.dump(1) + "\n";
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

SplitFile read_split(const std::filesystem::path& path, const Strata& strata) {
  const std::size_t rows = strata.labels.size();
  const SplitReader reader(path, rows);
  if (reader.integer_of("rows") != rows)
    reader.refuse(concat("rows: the split is of ", reader.integer_of("rows"), " rows, the data set has ", rows));
  if (reader.text_of("strata_sha256") != digest_of(strata))
    reader.refuse("strata_sha256: the split is of a data set with other labels or groups");
  SplitFile split{.options = {.fractions = reader.numbers_of("fractions"), .seed = reader.integer_of("seed")},
                  .parts = reader.parts()};
  if (const auto fault = fault_of(split.parts, rows)) reader.refuse(*fault);
  return split;
}

}  // namespace podaq
