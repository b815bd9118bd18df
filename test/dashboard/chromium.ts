import { aptInstall } from '../support/services/apt.ts'
import { binaryFolders, findBinary } from '../support/services/binary.ts'
import { allowedSources, findSource } from '../support/services/source.ts'

const names = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome']

/** A Chromium: named by the environment, installed, or installed now where we may. Throws what to do when there is none. */
export async function findChromium(): Promise<string> {
  const installed = () =>
    names.map((name) => findBinary(name, binaryFolders(process.env))).find((path) => path !== undefined)
  const { found } = await findSource(
    {
      environment: () => process.env.SIGNALBOX_TEST_CHROMIUM,
      installed,
      apt: async () => ((await aptInstall(['chromium'])) ? installed() : undefined),
      otherwise:
        'The tests of the dashboard need Chromium: install it (Debian: apt-get install chromium), or set SIGNALBOX_TEST_CHROMIUM to its path.',
    },
    allowedSources(process.env),
  )
  return found
}

/** How it is started: without what a browser does for a person, such as updating itself. */
export async function launchOptions(): Promise<{ readonly executablePath: string; readonly args: string[] }> {
  return {
    executablePath: await findChromium(),
    args: [
      // Root has no sandbox, and nothing but our own page is shown.
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
      ...['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
      ...['--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'],
    ],
  }
}
