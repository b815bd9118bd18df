import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { aptInstall } from '../support/services/apt.ts'
import { binaryFolders, findBinary } from '../support/services/binary.ts'
import { allowedSources, findSource } from '../support/services/source.ts'

const runFile = promisify(execFile)

/** A tmux: named by the environment, installed, or installed now where we may. Throws what to do when there is none. */
export async function findTmux(): Promise<string> {
  const installed = () => findBinary('tmux', binaryFolders(process.env))
  const { found } = await findSource(
    {
      environment: () => process.env.SIGNALBOX_TEST_TMUX,
      installed,
      apt: async () => ((await aptInstall(['tmux'])) ? installed() : undefined),
      otherwise:
        'The tests of the live view need tmux: install it (Debian: apt-get install tmux), or set SIGNALBOX_TEST_TMUX to its path.',
    },
    allowedSources(process.env),
  )
  return found
}

/** A real terminal with one program in it; it never outlives the test. */
export interface TerminalWindow extends AsyncDisposable {
  /** Keys by tmux's names, such as `Escape`; anything else is typed. */
  press(...keys: readonly string[]): Promise<void>
  resize(columns: number, rows: number): Promise<void>
  /** What is on it now. */
  screen(): Promise<string>
  /** Waits until it shows that; throws with what it shows instead. */
  shows(pattern: RegExp): Promise<string>
  /** One of tmux's variables, such as `alternate_on`. */
  ask(variable: string): Promise<string>
}

/** Far more than anything takes, for machines that do ten things at once. */
const patienceMs = 30_000

/** Opens a terminal of 90 by 20 that runs a shell command in `folder`, and stays when that has ended. */
export async function openWindow(
  folder: string,
  command: string,
  env: Readonly<Record<string, string>>,
): Promise<TerminalWindow> {
  const program = await findTmux()
  const socket = `${folder}/tmux`
  const tmux = async (...args: readonly string[]) => {
    const { stdout } = await runFile(program, ['-u', '-S', socket, '-f', '/dev/null', ...args], {
      cwd: folder,
      env: { PATH: process.env.PATH, LANG: 'C.UTF-8', TERM: 'xterm-256color', ...env },
    })
    return stdout
  }
  await tmux(...['new-session', '-d', '-x', '90', '-y', '20', 'sh', '-c', `${command}; sleep 600`])
  // Without a tmux server there is none to end.
  const close = async () => void (await tmux('kill-server').catch(() => undefined))
  const screen = () => tmux('capture-pane', '-p')
  return {
    press: async (...keys) => void (await tmux('send-keys', ...keys)),
    resize: async (columns, rows) => void (await tmux('resize-window', '-x', `${columns}`, '-y', `${rows}`)),
    screen,
    async shows(pattern) {
      const until = performance.now() + patienceMs
      // A terminal sends no event when it shows something, so the test polls it.
      for (;;) {
        const shown = await screen()
        if (pattern.test(shown)) return shown
        if (performance.now() > until) throw new Error(`The terminal does not show ${pattern}:\n${shown}`)
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    },
    ask: async (variable) => (await tmux('display-message', '-p', `#{${variable}}`)).trim(),
    [Symbol.asyncDispose]: close,
  }
}
