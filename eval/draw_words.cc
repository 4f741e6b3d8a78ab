// Words of the tasks that need no corpus.

#include <iterator>

#include "eval/trial_source.h"

namespace vestige::eval {

namespace {

constexpr const char* kAdjectives[] = {
    "amber",   "ancient", "arctic",  "bitter", "blue",     "bold",    "brave",  "bright", "broken",  "calm",
    "careful", "clever",  "cold",    "copper", "crimson",  "curious", "dark",   "deep",   "distant", "dusty",
    "early",   "eager",   "empty",   "faint",  "famous",   "fast",    "flat",   "frozen", "gentle",  "giant",
    "golden",  "grand",   "green",   "hidden", "hollow",   "honest",  "humble", "iron",   "ivory",   "jolly",
    "keen",    "late",    "lonely",  "loud",   "lucky",    "mellow",  "misty",  "modern", "narrow",  "noble",
    "odd",     "pale",    "patient", "plain",  "polished", "proud",   "quiet",  "rapid",  "rough",   "round",
    "silent",  "silver",  "simple",  "slow",   "small",    "smooth",  "solid",  "stormy", "strange", "sunny",
    "swift",   "tall",    "velvet",  "warm",   "wild",     "wooden"};
constexpr const char* kNouns[] = {
    "anchor",  "arrow",   "basket", "beacon",  "bell",    "bottle",  "bridge",   "button", "cabin",    "candle",
    "canyon",  "castle",  "cellar", "chair",   "clock",   "cloud",   "coat",     "corner", "cradle",   "desert",
    "door",    "drum",    "engine", "falcon",  "feather", "fence",   "field",    "forest", "fountain", "garden",
    "gate",    "glacier", "hammer", "harbour", "hill",    "island",  "kettle",   "ladder", "lake",     "lamp",
    "lantern", "letter",  "marble", "market",  "meadow",  "mirror",  "mountain", "needle", "orchard",  "otter",
    "palace",  "paper",   "pebble", "pillow",  "planet",  "pocket",  "ribbon",   "river",  "road",     "rope",
    "saddle",  "sail",    "shadow", "shelf",   "shore",   "station", "stone",    "stream", "table",    "temple",
    "tower",   "tunnel",  "valley", "violin",  "wagon",   "window"};
constexpr const char* kPeople[] = {"teacher", "baker",   "captain", "doctor", "farmer",   "gardener", "judge",
                                   "miller",  "painter", "pilot",   "porter", "sailor",   "smith",    "tailor",
                                   "weaver",  "printer", "clerk",   "nurse",  "stranger", "neighbour"};
constexpr const char* kDeeds[] = {"carried",  "repaired", "painted", "forgot",   "described", "borrowed",
                                  "measured", "counted",  "cleaned", "noticed",  "lifted",    "bought",
                                  "sold",     "admired",  "drew",    "found",    "lost",      "moved",
                                  "opened",   "closed",   "kept",    "returned", "wrapped",   "remembered"};
constexpr const char* kPlaces[] = {"in the market",      "behind the church",   "near the harbour",
                                   "along the road",     "under the bridge",    "across the valley",
                                   "on the upper floor", "outside the station", "between the houses",
                                   "by the river",       "in the courtyard",    "in the kitchen"};
constexpr const char* kTimes[] = {"before breakfast",     "after the rain",      "late in the evening",
                                  "on the following day", "during the winter",   "at first light",
                                  "that same week",       "when the bells rang", "many years later",
                                  "without any warning",  "at the usual hour",   "as the wind rose"};

}  // namespace

std::string Draw::hex(int n_digits) {
  std::string out;
  for (int i = 0; i < n_digits; ++i) out += "0123456789abcdef"[below(16)];
  return out;
}

std::vector<std::string> Draw::word_keys(int64_t n) {
  std::vector<std::string> keys;
  for (const char* adjective : kAdjectives) {
    for (const char* noun : kNouns) keys.push_back(std::string(adjective) + "-" + noun);
  }
  shuffle(&keys);
  for (size_t i = 0; static_cast<int64_t>(keys.size()) < n; ++i) keys.push_back(keys[i] + "-" + std::to_string(i));
  keys.resize(static_cast<size_t>(n));
  return keys;
}

std::string Draw::sentence() {
  const std::string a = pick(kAdjectives), b = pick(kAdjectives), x = pick(kNouns), y = pick(kNouns);
  const std::string who = pick(kPeople), other = pick(kPeople), deed = pick(kDeeds), deed2 = pick(kDeeds);
  const std::string place = pick(kPlaces), time = pick(kTimes);
  switch (below(5)) {
    case 0:
      return "The " + who + " " + deed + " the " + a + " " + x + " " + place + ", and the " + other + " " + deed2 +
             " a " + b + " " + y + " " + time + ".";
    case 1:
      return "Nobody " + deed + " the " + x + " " + time + "; the " + who + " only " + deed2 + " the " + y + ".";
    case 2:
      return "There was a " + a + " " + x + " " + place + " and a " + b + " " + y + " beside it.";
    case 3:
      return "It was the " + who + " who " + deed + " the " + a + " " + x + " " + time + ".";
    default:
      return "The " + a + " " + x + " stood " + place + ", where the " + who + " had once " + deed + " the " + y + ".";
  }
}

}  // namespace vestige::eval
