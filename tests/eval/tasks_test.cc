// Every generator: the same trial for the same key, another for another, and an answer that stands in the document.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "eval/task.h"

namespace vestige::eval {
namespace {

constexpr int64_t kWindow = 65536;

class Tasks : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto loaded = Tokenizer::load(VESTIGE_SOURCE_DIR "/models/nano");
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    tokenizer_ = std::move(*loaded).release();
    Draw draw(11);
    std::string text;
    while (text.size() < 120000) text += draw.sentence() + " ";
    auto corpus = encode_corpus(*tokenizer_, text);
    ASSERT_TRUE(corpus.ok());
    corpus_ = new std::vector<int32_t>(std::move(*corpus));
  }
  static void TearDownTestSuite() {
    delete tokenizer_;
    delete corpus_;
  }

  static Result<Trial> make(const std::string& name, int64_t length, int32_t trial, uint64_t seed = 0,
                            int64_t window = kWindow) {
    VESTIGE_ASSIGN(const TaskInfo task, find_task(name));
    TrialSource source(*tokenizer_, *corpus_, window,
                       {.task = task.name, .length = length, .seed = seed, .trial = trial});
    return task.make(source);
  }
  static Trial made(const std::string& name, int64_t length, int32_t trial, uint64_t seed = 0) {
    auto result = make(name, length, trial, seed);
    EXPECT_TRUE(result.ok()) << name << ": " << result.status().message();
    return result.ok() ? *result : Trial();
  }
  static std::string text_of(const std::vector<int32_t>& tokens) {
    std::string text;
    EXPECT_TRUE(tokenizer_->decode(tokens, &text).ok());
    return text;
  }

  static Tokenizer* tokenizer_;
  static std::vector<int32_t>* corpus_;
};
Tokenizer* Tasks::tokenizer_ = nullptr;
std::vector<int32_t>* Tasks::corpus_ = nullptr;

bool same(const Trial& a, const Trial& b) {
  const auto equal = [](const Segment& x, const Segment& y) { return x.prompt == y.prompt && x.answer == y.answer; };
  return a.document == b.document &&
         std::equal(a.segments.begin(), a.segments.end(), b.segments.begin(), b.segments.end(), equal);
}

TEST_F(Tasks, SameKeySameTrial) {
  for (const TaskInfo& task : task_infos()) {
    const Trial a = made(task.name, 2048, 3, 7);
    EXPECT_TRUE(same(a, made(task.name, 2048, 3, 7))) << task.name;
    EXPECT_FALSE(same(a, made(task.name, 2048, 4, 7))) << task.name;
    EXPECT_FALSE(same(a, made(task.name, 2048, 3, 8))) << task.name;
  }
}

// To the token: a document one row short of its blocks would leave a whole block uncompressed.
TEST_F(Tasks, DocumentsHaveTheirLength) {
  for (const TaskInfo& task : task_infos()) {
    const int64_t want = std::string(task.name) == "ce" ? 1024 : 2048;
    const Trial trial = made(task.name, 2048, 0);
    EXPECT_EQ(static_cast<int64_t>(trial.document.size()), want) << task.name;
    for (const Segment& segment : trial.segments) EXPECT_FALSE(segment.answer.empty()) << task.name;
  }
}

TEST_F(Tasks, AWindowLeavesRoomForTheQuestion) {
  for (const TaskInfo& task : task_infos()) {
    const auto trial = make(task.name, 2048, 0, 0, 2048);
    ASSERT_TRUE(trial.ok()) << task.name << ": " << trial.status().message();
    size_t n = trial->document.size();
    for (const Segment& segment : trial->segments) n += segment.prompt.size() + segment.answer.size();
    EXPECT_LE(n, 2048u) << task.name;
  }
}

TEST_F(Tasks, NeedleStandsBetweenATenthAndEightTenths) {
  for (int32_t i = 0; i < 10; ++i) {
    const Trial trial = made("needle", 2048, i);
    const std::string code = text_of(trial.segments[0].answer);
    ASSERT_EQ(code.size(), 6u);
    const std::string document = text_of(trial.document);
    const size_t at = document.find("is" + code + ".");
    ASSERT_NE(at, std::string::npos) << code;
    EXPECT_EQ(document.find(code, at + code.size()), std::string::npos);
    const double depth = static_cast<double>(at) / static_cast<double>(document.size());
    EXPECT_GT(depth, 0.08);
    EXPECT_LT(depth, 0.83);
  }
}

TEST_F(Tasks, RecordsAreLookedUpOnce) {
  for (int32_t i = 0; i < 10; ++i) {
    const Trial trial = made("records", 2048, i);
    const std::string prompt = text_of(trial.segments[0].prompt), answer = text_of(trial.segments[0].answer);
    ASSERT_EQ(prompt.substr(0, 8), "\nRecall ");
    const std::string line = std::string("\n").append(prompt.substr(8)).append(answer);
    EXPECT_NE(text_of(trial.document).find(line), std::string::npos) << line;
  }
}

TEST_F(Tasks, EveryMagicNumberIsThere) {
  for (const char* name : {"niah_single", "niah_multikey_1", "niah_multikey_2", "niah_multikey_3", "niah_multiquery"}) {
    const Trial trial = made(name, 2048, 1);
    const std::string document = text_of(trial.document);
    EXPECT_EQ(trial.segments.size(), std::string(name) == "niah_multiquery" ? 4u : 1u);
    for (const Segment& segment : trial.segments) {
      const std::string question = text_of(segment.prompt), answer = text_of(segment.answer);
      const size_t from = question.find(" for ") + 5;
      const std::string key = question.substr(from, question.find('?') - from);
      const std::string statement = "numbers for " + key + " is:" + answer.substr(0, answer.size() - 1) + ".";
      EXPECT_NE(document.find(statement), std::string::npos) << name << ": " << statement;
    }
  }
}

TEST_F(Tasks, ManyValuesInTheOrderOfTheText) {
  const Trial trial = made("niah_multivalue", 2048, 2);
  const std::string document = text_of(trial.document);
  std::istringstream values(text_of(trial.segments[0].answer));
  size_t at = 0, n = 0;
  for (std::string value; values >> value; ++n) {
    const size_t found = document.find(" is: " + value.substr(0, 5) + ".", at);
    ASSERT_NE(found, std::string::npos) << value;
    at = found;
  }
  EXPECT_EQ(n, 4u);
}

TEST_F(Tasks, ChainOfVariables) {
  const Trial trial = made("variable_tracking", 2048, 0);
  const std::string document = text_of(trial.document), names = text_of(trial.segments[0].answer);
  for (size_t i = 0; i < 5; ++i) {
    const std::string name = names.substr(1 + 7 * i, 5);
    std::string want = std::string("VAR ").append(name).append(" = ");
    if (i > 0) want.append("VAR ").append(names.substr(1 + 7 * (i - 1), 5));
    EXPECT_NE(document.find(want), std::string::npos) << want;
  }
}

TEST_F(Tasks, PassageIsACopy) {
  const Trial trial = made("passage", 2048, 0);
  const Segment& segment = trial.segments[0];
  std::vector<int32_t> passage(segment.prompt.end() - 16, segment.prompt.end());
  passage.insert(passage.end(), segment.answer.begin(), segment.answer.end());
  const auto& document = trial.document;
  EXPECT_NE(std::search(document.begin(), document.end(), passage.begin(), passage.end()), document.end());
}

TEST_F(Tasks, WordsAreAsOftenAsTheAnswerSays) {
  for (const char* name : {"common_words", "frequent_words"}) {
    const Trial trial = made(name, 8192, 0);
    std::map<std::string, int> counts;
    std::istringstream words(text_of(trial.document));
    for (std::string word; words >> word;) {
      if (!word.ends_with('.')) ++counts[word];
    }
    std::vector<std::pair<int, std::string>> order;
    for (const auto& [word, n] : counts) order.emplace_back(-n, word);
    std::sort(order.begin(), order.end());
    const bool common = std::string(name) == "common_words";
    std::vector<std::string> want;
    for (size_t i = 0; i < (common ? 10u : 3u); ++i) want.push_back(order[i].second);
    if (common) std::sort(want.begin(), want.end());
    std::string answer;
    for (const std::string& word : want) answer.append(answer.empty() ? " " : ", ").append(word);
    EXPECT_EQ(text_of(trial.segments[0].answer), answer + "\n") << name;
  }
}

TEST_F(Tasks, CorpusTasksSayWhatTheyLack) {
  const auto task = find_task("needle");
  ASSERT_TRUE(task.ok());
  TrialSource source(*tokenizer_, {}, kWindow, {.task = "needle", .length = 2048, .seed = 0, .trial = 0});
  EXPECT_NE(task->make(source).status().message().find("--corpus"), std::string::npos);
  EXPECT_NE(make("needle", 1 << 20, 0, 0, 1 << 21).status().message().find("the corpus has"), std::string::npos);
  EXPECT_NE(make("needle", 64, 0).status().message().find("too short"), std::string::npos);
}

}  // namespace
}  // namespace vestige::eval
