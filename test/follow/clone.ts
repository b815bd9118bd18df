import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'

/** A checkout as after `git clone`, and the environment for working there. */
export interface Clone extends Disposable {
  readonly folder: string
  /** Beside the clone, not in it. */
  readonly scratch: string
  readonly env: NodeJS.ProcessEnv
}

/**
 * Copies what git has or would take, and what was built from it, so that nothing is built twice. `npm ci` was done where the copy comes
 * from: its packages are linked, and the command, which pages begin with, says so and does nothing.
 */
export function createClone(root: string): Clone {
  const place = realpathSync(mkdtempSync(join(tmpdir(), 'signalbox-follow-')))
  const folder = join(place, 'signalbox')
  const scratch = join(place, 'scratch')
  for (const each of [folder, scratch]) mkdirSync(each)
  const listed = execFileSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  })
  const files = listed.split('\0').filter((file) => file !== '' && existsSync(join(root, file)))
  if (existsSync(join(root, 'dist'))) files.push('dist')
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    cpSync(join(root, file), join(folder, file), { recursive: true, preserveTimestamps: true })
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  return {
    folder,
    scratch,
    env: strangersEnv(scratch),
    [Symbol.dispose]: () => rmSync(place, { recursive: true, force: true, maxRetries: 5 }),
  }
}

/** Nothing of the project's is on the path or in the environment but what the page puts there. */
function strangersEnv(scratch: string): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(SIGNALBOX_|npm_|NODE_OPTIONS$|INIT_CWD$)/.test(name),
  )
  const folders = (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => !/node_modules[\\/]\.bin/.test(folder))
  const npm = folders.map((folder) => join(folder, 'npm')).find(existsSync)
  if (npm === undefined) throw new Error('There is no npm on the PATH.')
  const bin = join(scratch, 'bin')
  mkdirSync(bin)
  writeFileSync(join(bin, 'npm'), `#!/bin/sh\nif [ "$1" = ci ]; then exit 0; fi\nexec '${npm}' "$@"\n`)
  chmodSync(join(bin, 'npm'), 0o755)
  // What one program has compiled the next one takes from here.
  const quicker = { NODE_COMPILE_CACHE: join(scratch, 'compiled') }
  return { ...Object.fromEntries(kept), PATH: [bin, ...folders].join(delimiter), NO_COLOR: '1', ...quicker }
}
