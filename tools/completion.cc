// vestige completion: a script for the shell, made from the flags themselves.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tools/command.h"

namespace vestige::tools {

namespace {

/// Visible flags of one subcommand, with dashes.
std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::vector<const CLI::App*> subcommands(const CLI::App& root) { return root.get_subcommands(nullptr); }

std::string bash_script(const CLI::App& root) {
  std::string names, cases;
  for (const CLI::App* app : subcommands(root)) {
    names += (names.empty() ? "" : " ") + app->get_name();
    cases += "    " + app->get_name() + ") words=\"" + joined(flag_names(*app)) + "\" ;;\n";
  }
  return "_vestige() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} words=\"" +
         names +
         " --help --version\"\n"
         "  if ((COMP_CWORD > 1)); then case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac; fi\n"
         "  if [[ $current == -* || $COMP_CWORD -eq 1 ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _vestige vestige\n";
}

std::string zsh_script(const CLI::App& root) {
  std::string names, cases;
  for (const CLI::App* app : subcommands(root)) {
    names += "    '" + app->get_name() + ":" + app->get_description() + "'\n";
    cases += "    " + app->get_name() + ") compadd -- " + joined(flag_names(*app)) + " ;;\n";
  }
  return "#compdef vestige\n"
         "_vestige() {\n"
         "  local -a commands=(\n" +
         names +
         "  )\n"
         "  if ((CURRENT == 2)); then _describe command commands; return; fi\n"
         "  if [[ $words[CURRENT] != -* ]]; then _files; return; fi\n"
         "  case $words[2] in\n" +
         cases +
         "  esac\n"
         "}\n"
         "compdef _vestige vestige\n";
}

std::string fish_script(const CLI::App& root) {
  std::string out;
  for (const CLI::App* app : subcommands(root)) {
    out += "complete -c vestige -n __fish_use_subcommand -f -a " + app->get_name() + " -d '" + app->get_description() +
           "'\n";
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        out += "complete -c vestige -n '__fish_seen_subcommand_from " + app->get_name() + "' -l " + name + "\n";
      }
    }
  }
  return out;
}

}  // namespace

Command add_completion(CLI::App& root) {
  auto shell = std::make_shared<std::string>();
  CLI::App* app = root.add_subcommand("completion", "Print a completion script for a shell");
  app->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app->footer(
      "Examples:\n  vestige completion bash > /etc/bash_completion.d/vestige\n"
      "  source <(vestige completion zsh)\n  vestige completion fish | source");
  return {app, [shell, &root] {
            const std::string text = *shell == "bash"  ? bash_script(root)
                                     : *shell == "zsh" ? zsh_script(root)
                                                       : fish_script(root);
            std::fputs(text.c_str(), stdout);
            return Status();
          }};
}

}  // namespace vestige::tools
