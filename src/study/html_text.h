#pragma once

#include <string>
#include <string_view>

namespace podaq::study_detail {

/// `text` as HTML shows it literally, in content and in quoted attributes.
[[nodiscard]] inline std::string html_escaped(std::string_view text) {
  std::string escaped;
  for (const char letter : text) switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += letter;
    }
  return escaped;
}

}  // namespace podaq::study_detail
