/** `npm run docs:site`: builds the documentation as a static site into `site/`. A dead link fails the build. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { writePages } from './site/pages.ts'

const root = join(import.meta.dirname, '..')
const pages = join(root, '.site')

rmSync(pages, { recursive: true, force: true })
writePages(pages)
mkdirSync(join(pages, '.vitepress'))
writeFileSync(join(pages, '.vitepress/config.mts'), `export { default } from '../../tools/site/config.ts'\n`)
const built = spawnSync(join(root, 'node_modules/.bin/vitepress'), ['build', pages], { stdio: 'inherit' })
rmSync(pages, { recursive: true, force: true })
process.exitCode = built.status ?? 1
