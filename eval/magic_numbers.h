#pragma once

// The statements of the niah_* tasks (needle in a haystack): our own generators after RULER (arXiv:2404.06654).

#include <string>

#include "eval/haystack.h"

namespace vestige::eval {

inline std::string magic_statement(const std::string& key, const std::string& value) {
  return "One of the special magic numbers for " + key + " is: " + value + ".";
}

inline Question magic_question(const std::string& key, const std::string& value) {
  return {wrap_question("What is the magic number for " + key + "?"), " " + value + "\n"};
}

}  // namespace vestige::eval
