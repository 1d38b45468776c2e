//! The commands that answer a question by lines, up to `END`: `pk-sig`, `rsa-sig`, `certificate`.

use super::CommandContext;
use super::pending_queries::TextTopic;
use super::program::ProgramId;
use super::session::Session;
use crate::management::output::Output;

/// Longest answer in bytes: a certificate with those that link it to an authority.
const MAX_TEXT: usize = 64 << 10;

/// The lines of an answer, up to `END`.
pub(super) struct TextBlock {
    topic: TextTopic,
    program: ProgramId,
    text: String,
    too_long: bool,
}

impl TextBlock {
    /// One more line.
    pub(super) fn add(&mut self, line: &str) {
        if self.text.len() + line.len() >= MAX_TEXT {
            self.too_long = true;
        } else {
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    /// `END`.
    pub(super) fn end(&mut self, context: &CommandContext, out: &mut Output) {
        let text = match self.too_long {
            true => {
                Err(format!("what the program at the management socket gave is longer than {MAX_TEXT} bytes"))
            }
            false => Ok(std::mem::take(&mut self.text)),
        };
        out.line(&context.questions.take_text(self.topic, self.program, text));
    }
}

/// Runs one of these commands. As in OpenVPN, one that is not asked for takes no lines.
pub(super) fn run(name: &str, session: &mut Session, context: &CommandContext, out: &mut Output) {
    let topic = match name {
        "certificate" => TextTopic::Certificate,
        _ => TextTopic::Signature,
    };
    let Some(program) = session.program() else { return };
    match context.questions.begin_text(topic, program) {
        true => session.take_text(TextBlock { topic, program, text: String::new(), too_long: false }),
        false => out.line(&format!("ERROR: The {name} command is not currently available")),
    }
}
