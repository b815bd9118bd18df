import { isSignalboxError } from '../../core/errors.ts'
import type { Box, RemoteBox } from '../../index.ts'
import { escapeText } from '../print.ts'
import { drawFrame, pageSize } from './frame.ts'
import type { Act, Look, PaneName } from './pane.ts'
import { paneOf } from './panes.ts'
import { firstState, press, type State, shownRows } from './state.ts'
import { decodeKeys, openTerminal, type Style, type Terminal } from './terminal.ts'

export interface SessionOptions {
  readonly box: Box | RemoteBox
  readonly pane: PaneName
  readonly everyMs: number
  readonly style: Style
  /** The server or store, as text for the user. */
  readonly boxName: string
}

/** Shows the live view until the user quits or a signal comes. */
export async function showTop(options: SessionOptions): Promise<void> {
  const session = new Session(options)
  const quit = () => session.quit()
  process.on('SIGTERM', quit).on('SIGINT', quit).on('SIGHUP', quit)
  try {
    await session.run()
  } finally {
    process.off('SIGTERM', quit).off('SIGINT', quit).off('SIGHUP', quit)
  }
}

/**
 * At most one read is in flight, and the next begins `everyMs` after its end. If the user left the page meanwhile, the
 * result is dropped.
 */
class Session {
  readonly #options: SessionOptions
  readonly #terminal: Terminal
  readonly #ended = Promise.withResolvers<void>()
  #state: State
  #look: Look | undefined
  #seenAt = ''
  #failure = ''
  #timer: NodeJS.Timeout | undefined
  #isLooking = false
  #mustLookAgain = false
  #isOver = false

  constructor(options: SessionOptions) {
    this.#options = options
    this.#state = firstState(options.pane)
    this.#terminal = openTerminal({
      typed: (text) => this.#typed(text),
      resized: () => this.#draw(),
      gone: () => this.quit(),
    })
  }

  async run(): Promise<void> {
    using _terminal = this.#terminal
    this.#draw()
    this.#askAgain()
    await this.#ended.promise
  }

  quit(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#ended.resolve()
  }

  #typed(text: string): void {
    try {
      for (const key of decodeKeys(text)) this.#pressed(key)
      if (!this.#isOver) this.#draw()
    } catch (error) {
      this.#ended.reject(error)
    }
  }

  #pressed(key: string): void {
    const rows = shownRows(this.#look?.rows ?? [], this.#state.filter)
    const { state, effect } = press(this.#state, key, rows, pageSize(this.#terminal.size))
    if (state.pane !== this.#state.pane) this.#look = undefined
    this.#state = state
    switch (effect.kind) {
      case 'quit':
        this.quit()
        break
      case 'look':
        this.#askAgain()
        break
      case 'redraw':
        this.#terminal.forget()
        break
      case 'act':
        this.#perform(effect.act).catch((error) => this.#ended.reject(error))
    }
  }

  async #perform(act: Act): Promise<void> {
    let message: string
    try {
      message = await act.perform(this.#options.box)
    } catch (error) {
      message = reasonOf(error)
    }
    if (this.#isOver) return
    this.#state = { ...this.#state, message }
    this.#draw()
    this.#askAgain()
  }

  #askAgain(): void {
    if (this.#isLooking) {
      this.#mustLookAgain = true
      return
    }
    clearTimeout(this.#timer)
    this.#isLooking = true
    void this.#lookOnce().catch((error) => this.#ended.reject(error))
  }

  async #lookOnce(): Promise<void> {
    const { pane } = this.#state
    let look: Look | undefined
    let failure = ''
    try {
      look = await paneOf(pane).look(this.#options.box)
    } catch (error) {
      // Begin with the next step, because a long reason is cut.
      failure = `Trying again. ${reasonOf(error)}`
    }
    this.#isLooking = false
    if (this.#isOver) return
    if (pane === this.#state.pane) {
      // After a failure the last result stays, with its time.
      this.#look = look ?? this.#look
      if (look !== undefined) this.#seenAt = new Date().toTimeString().slice(0, 8)
      this.#failure = failure
      this.#draw()
    }
    if (this.#mustLookAgain) {
      this.#mustLookAgain = false
      this.#askAgain()
    } else if (!this.#state.isPaused) {
      this.#timer = setTimeout(() => this.#tick(), this.#options.everyMs)
    }
  }

  #tick(): void {
    if (!this.#state.isPaused) this.#askAgain()
  }

  #draw(): void {
    const { boxName, style } = this.#options
    const scene = {
      ...{ state: this.#state, look: this.#look, boxName },
      ...{ seenAt: this.#seenAt, error: this.#failure },
    }
    this.#terminal.show(drawFrame(scene, this.#terminal.size, style))
  }
}

function reasonOf(error: unknown): string {
  // Any other error is a bug of this program, not an answer of a store.
  if (!isSignalboxError(error)) throw error
  return escapeText(error.message)
}
