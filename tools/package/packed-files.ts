/** Which files the tarball must have, may have and must not have. */
import { findDeadLinks } from '../../test/house/links.ts'

export interface Manifest {
  readonly name: string
  readonly bin: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

const documents = ['README.md', 'README.zh-CN.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE', 'package.json']

/** What a page of the package may lead to, besides. */
const linked = [
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'Dockerfile',
  'compose.yaml',
  'dashboard/README.md',
  'llms.txt',
]

/** The files package.json points to. `source` is for this checkout, which alone has src. */
function promisedFiles({ exports, bin }: Manifest): readonly string[] {
  const targets = Object.values(exports).flatMap((entry) =>
    typeof entry === 'string'
      ? [entry]
      : Object.entries(entry).flatMap(([condition, target]) => (condition === 'source' ? [] : [target])),
  )
  const built = ['./dist/dashboard/index.html', './dist/sbom.cdx.json']
  return [...targets, ...Object.values(bin), ...built].map((target) => target.replace(/^\.\//, ''))
}

/** Built code, the dashboard with its files compressed beside them, the documentation and what it shows. */
function belongs(file: string): boolean {
  return (
    documents.includes(file) ||
    linked.includes(file) ||
    /^dist\/.*\.(js|d\.ts)$/.test(file) ||
    /^dist\/dashboard\/(assets\/)?[\w.-]+$/.test(file) ||
    file === 'dist/sbom.cdx.json' ||
    /^docs\/.*\.(md|png|svg)$/.test(file) ||
    /^(examples|packaging)\//.test(file)
  )
}

/** What is wrong with the list of packed files. */
export function findFileFaults(files: readonly string[], manifest: Manifest): readonly string[] {
  const missing = [...new Set([...promisedFiles(manifest), ...documents])].filter(
    (file) => !files.includes(file),
  )
  const foreign = files.filter((file) => !belongs(file) || /\.test\./.test(file) || file.endsWith('.map'))
  return [...missing.map((file) => `missing: ${file}`), ...foreign.map((file) => `does not belong: ${file}`)]
}

/** Links of packed pages that lead to no packed file. `read` gives a packed file's text. */
export function findLinkFaults(files: readonly string[], read: (file: string) => string): readonly string[] {
  const pages = files.filter((file) => /\.(md|txt)$/.test(file))
  const folders = files.flatMap((file) => file.split('/').map((_, at, parts) => parts.slice(0, at).join('/')))
  return findDeadLinks(new Map(pages.map((page) => [page, read(page)])), new Set([...files, ...folders]))
}
