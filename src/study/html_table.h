#pragma once

#include <string>
#include <utility>
#include <vector>

#include "study/html_text.h"

namespace podaq::study_detail {

/// A table for a page, filled cell by cell. Cells are text; it is escaped here.
class HtmlTable {
 public:
  /// @param caption  what it shows.
  HtmlTable(const std::string& caption, const std::vector<std::string>& columns) {
    html_ = "<div class=\"wide\"><table><caption>" + html_escaped(caption) + "</caption><thead><tr>";
    for (const std::string& column : columns) html_ += "<th scope=\"col\">" + html_escaped(column) + "</th>";
    html_ += "</tr></thead><tbody>";
  }

  /// Begins a row with its name.
  HtmlTable& row(const std::string& name) {
    end_row();
    html_ += "<tr><th scope=\"row\">" + html_escaped(name) + "</th>";
    is_in_row_ = true;
    return *this;
  }

  /// Adds a cell.
  HtmlTable& cell(const std::string& text) {
    html_ += "<td>" + html_escaped(text) + "</td>";
    return *this;
  }

  /// Adds a cell whose background says how much: `share` in [0, 1].
  HtmlTable& shaded_cell(const std::string& text, double share) {
    html_ += "<td style=\"--share:" + std::to_string(share) + "\" class=\"shaded\">" + html_escaped(text) + "</td>";
    return *this;
  }

  /// The finished table.
  [[nodiscard]] std::string html() && {
    end_row();
    return std::move(html_) + "</tbody></table></div>\n";
  }

 private:
  void end_row() {
    if (std::exchange(is_in_row_, false)) html_ += "</tr>\n";
  }

  std::string html_;
  bool is_in_row_ = false;
};

}  // namespace podaq::study_detail
