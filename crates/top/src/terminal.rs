//! The terminal: taken, and given back on every way out.

use std::io;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::reader::Reader;
use crate::screen::View;

/// How often the terminal is drawn if no key is pressed.
const DRAW: Duration = Duration::from_millis(200);

/// Draws until somebody quits, or a signal or a panic ends it. The terminal is restored on every way out.
pub(crate) fn run(reader: &Reader) -> io::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
        signal_hook::consts::SIGINT,
    ] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    // Its hook restores the terminal before a panic is told, of whichever thread: then nothing is drawn any more.
    let mut terminal = ratatui::try_init()?;
    let has_panicked = Arc::new(AtomicBool::new(false));
    let (restore, panicking) = (panic::take_hook(), has_panicked.clone());
    panic::set_hook(Box::new(move |about| {
        panicking.store(true, Ordering::Relaxed);
        restore(about);
    }));
    let is_over = || stop.load(Ordering::Relaxed) || has_panicked.load(Ordering::Relaxed);
    let drawn = follow(&mut terminal, reader, is_over);
    ratatui::restore();
    match has_panicked.load(Ordering::Relaxed) {
        true => Err(io::Error::other("a part of this program failed")),
        false => drawn,
    }
}

fn follow(
    terminal: &mut DefaultTerminal,
    reader: &Reader,
    is_over: impl Fn() -> bool,
) -> io::Result<()> {
    let mut view = View::new();
    while !is_over() {
        view.take(reader);
        terminal.draw(|frame| view.draw(frame))?;
        if event::poll(DRAW)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && view.press(key, reader)
        {
            return Ok(());
        }
    }
    Ok(())
}
