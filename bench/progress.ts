/** One line on stderr that says where a long run is: rewritten in place on a terminal, else a line per step. */
export interface Progress extends Disposable {
  /** `step` changes seldom and makes a new line in a log; `detail` is only worth showing on a terminal. */
  show(step: string, detail: string): void
}

/** Makes the progress line for `out`. */
export function createProgress(out: NodeJS.WriteStream = process.stderr): Progress {
  let lastStep = ''
  return {
    show(step, detail) {
      if (out.isTTY) out.write(`\r\x1b[K${`${step} ${detail}`.slice(0, (out.columns ?? 80) - 1)}`)
      else if (step !== lastStep) out.write(`${step}\n`)
      lastStep = step
    },
    [Symbol.dispose]() {
      if (out.isTTY && lastStep) out.write('\r\x1b[K')
    },
  }
}
