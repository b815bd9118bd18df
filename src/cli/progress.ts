/**
 * How far long work has come, on one line of standard error that is written over and over, and is gone at the end:
 *
 *     retry  [##########----------]  50 %  1,200 of 2,400  12 s left
 *
 * Only a terminal gets it: a log has no use for a line that moves. Words here are ours, so nothing in them can be a
 * command to the terminal.
 */
export interface Progress extends Disposable {
  /** `total` is undefined as long as it is unknown. */
  show(what: string, done: number, total: number | undefined): void
}

/** The part of a terminal that a bar needs. */
export interface Screen {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

const barWidth = 20
/** People cannot read faster. */
const leastMs = 100

export function createProgress(screen: Screen = process.stderr, now: () => number = Date.now): Progress {
  const startedAt = now()
  let shownAt = Number.NEGATIVE_INFINITY
  let lastWhat = ''
  return {
    show(what, done, total) {
      const at = now()
      if (!screen.isTTY || (at - shownAt < leastMs && what === lastWhat)) return
      shownAt = at
      lastWhat = what
      const line = lineOf(what, done, total, at - startedAt)
      screen.write(`\r${line.slice(0, (screen.columns || 80) - 1)}\u001b[K`)
    },
    [Symbol.dispose]() {
      if (shownAt > 0) screen.write('\r\u001b[K')
    },
  }
}

/** The line for one moment. */
export function lineOf(what: string, done: number, total: number | undefined, elapsedMs: number): string {
  const count = (number: number) => Math.round(number).toLocaleString('en-US')
  if (total === undefined || total <= 0) return `${what}  ${count(done)}`
  const part = Math.min(1, done / total)
  const full = Math.round(part * barWidth)
  const bar = `[${'#'.repeat(full)}${'-'.repeat(barWidth - full)}]`
  const words = [what, bar, `${Math.floor(part * 100)} %`, `${count(done)} of ${count(total)}`]
  // No figure is better than a wrong one.
  if (part > 0.02 && part < 1 && elapsedMs > 1_000)
    words.push(`${Math.ceil(((elapsedMs / part) * (1 - part)) / 1_000)} s left`)
  return words.join('  ')
}
