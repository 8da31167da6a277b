//! Weir's configuration: `weir serve FILE`.

use super::{Class, Description, Rendered};

pub(super) fn render(description: &Description<'_>) -> Rendered {
    let Description { listen, origin, .. } = description;
    let mut text = String::new();
    if description.class == Class::Tuned {
        text.push_str(
            "[process]\n\
             # One worker for the one CPU of the target, as the others have.\n\
             workers = 1\n\n\
             [access_log]\n\
             # Off for all targets; metrics stay on.\n\
             format = \"off\"\n\n",
        );
    }
    text.push_str(&format!(
        "[listener.bench]\naddress = \"{listen}\"\nupstream = \"origin\"\n\n\
         [upstream.origin]\nservers = [\"{origin}\"]\n"
    ));
    if !description.server_reuse {
        text.push_str("\n[upstream.origin.idle]\n# The variant without reuse of server connections.\nconnections_max = 0\n");
    }
    let path = description.dir.join("weir.toml");
    Rendered { file: "weir.toml", text, args: vec!["serve".to_owned(), path.display().to_string()] }
}
