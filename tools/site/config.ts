/**
 * The configuration of the documentation site, for VitePress. `pages.ts` writes the pages that it builds. The search index is part of
 * the site, so search needs no other host.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { anchorOf } from './anchor.ts'

interface Entry {
  readonly text: string
  readonly link: string
}

interface Group {
  readonly text: string
  readonly collapsed: boolean
  readonly items: readonly Entry[]
}

const config: Readonly<Record<string, unknown>> = {
  title: 'Signalbox',
  description:
    'Jobs, locks, idempotency keys, notifications, dispatch and a work queue for a fleet of workers',
  lang: 'en',
  outDir: join(import.meta.dirname, '../../site'),
  // Both are names of this machine in examples, not pages of the site.
  ignoreDeadLinks: [/^https?:\/\/(127\.0\.0\.1|localhost)/],
  markdown: {
    anchor: { slugify: anchorOf },
    // A heading may end in braces: GET /v1/jobs/{id}.
    attrs: false,
    languageAlias: { output: 'txt', haproxy: 'txt' },
  },
  // No page is a Vue template: two braces are only text.
  vue: { template: { compilerOptions: { delimiters: ['\u0001', '\u0002'] } } },
  themeConfig: {
    nav: [
      { text: 'Tutorial', link: '/docs/tutorial' },
      { text: 'Which one?', link: '/docs/which-one' },
      { text: 'API', link: '/docs/api' },
      { text: '简体中文', link: '/README.zh-CN' },
    ],
    sidebar: sidebarFrom(readFileSync(join(import.meta.dirname, '../../docs/README.md'), 'utf8')),
    outline: [2, 3],
    search: { provider: 'local' },
  },
}

export default config

/** The groups and links of the index of the documentation. */
function sidebarFrom(index: string): readonly Group[] {
  return index
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const text = section.slice(0, section.indexOf('\n'))
      const links = [...section.matchAll(/\[([^\]]+)\]\(([^)#]+\.md)\)/g)]
      const items = links
        .filter(([, , path]) => !path!.startsWith('../'))
        .map(([, name, path]) => ({ text: name!, link: `/docs/${path!.replace(/\.md$/, '')}` }))
      return { text, collapsed: text === 'Decisions', items }
    })
}
