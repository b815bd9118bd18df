import { writeSync } from 'node:fs'
import { changes, type Size } from './screen.ts'

/**
 * A terminal that is taken over for a while: the alternate screen, no cursor, each key at once. However the process ends,
 * short of being killed outright, it is given back as it was: at `close`, at exit, and before an error nobody caught is
 * printed.
 */
export interface Terminal extends Disposable {
  readonly size: Size
  /** Shows these lines; only what has changed is written. */
  show(lines: readonly string[]): void
  /** Forgets what is shown, so that the next lines are written in full. */
  forget(): void
}

export interface TerminalEvents {
  /** What the person typed, as sent. */
  typed(text: string): void
  resized(): void
  /** The terminal is gone, as when its window was closed. */
  gone(): void
}

const enter = '\u001b[?1049h\u001b[?25l\u001b[2J'
const leave = '\u001b[0m\u001b[?25h\u001b[?1049l'

/** Takes the terminal of this process over. Both streams must be terminals. */
export function openTerminal(events: TerminalEvents): Terminal {
  const { stdin, stdout } = process
  let shown: readonly string[] = []
  let isOpen = true

  const restore = () => {
    if (!isOpen) return
    isOpen = false
    try {
      stdin.setRawMode(false)
      writeSync(stdout.fd, leave)
    } catch {
      // The terminal itself is gone.
    }
  }
  // The error is printed by Node after this, on the screen that was there before.
  const crashed = () => restore()
  const resized = () => {
    shown = []
    stdout.write('\u001b[0m\u001b[2J')
    events.resized()
  }
  const heard = (text: string) => events.typed(text)
  const gone = () => events.gone()

  process.on('exit', restore).on('uncaughtExceptionMonitor', crashed)
  stdout.on('resize', resized).on('error', gone)
  stdin.setRawMode(true)
  stdin.setEncoding('utf8').on('data', heard).on('end', gone).on('error', gone).resume()
  stdout.write(enter)

  return {
    get size() {
      return { columns: Math.max(20, stdout.columns || 80), rows: Math.max(5, stdout.rows || 24) }
    },
    show(lines) {
      const written = changes(shown, lines)
      shown = lines
      if (isOpen && written !== '') stdout.write(written)
    },
    forget() {
      shown = []
      stdout.write('\u001b[0m\u001b[2J')
    },
    [Symbol.dispose]() {
      process.off('exit', restore).off('uncaughtExceptionMonitor', crashed)
      stdout.off('resize', resized)
      // A terminal that is gone may still say so; there is nothing left to do about it.
      stdin.off('data', heard).pause()
      restore()
    },
  }
}
