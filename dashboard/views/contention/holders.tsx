import type { ReactNode } from 'react'
import { Section } from '../../kit/page.tsx'
import { Text } from '../../kit/text/text.tsx'
import { visible } from '../../kit/text/visible.ts'
import { contentionWords } from '../../words/contention.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import type { Snapshot } from './heat.ts'
import { More } from './more.tsx'

/** Holders that are no commands. */
const meanings = new Map([
  ['gc', 'gc'],
  ['event-loop', 'eventLoop'],
  ['host', 'host'],
  ['store', 'store'],
  ['other', 'other'],
] as const)

/** Who was in the way, the worst first, each with its share of all that was waited. */
export function Holders({ snapshot: { holders } }: { readonly snapshot: Snapshot }): ReactNode {
  const say = useWords(contentionWords)
  const format = useFormat()
  const all = holders.reduce((sum, { ms }) => sum + ms, 0)
  const most = holders[0]?.ms ?? 0
  return (
    <Section title={say('holders')}>
      <p className="aside contention-lead">{say('holdersLead')}</p>
      <div className="card">
        <More rows={holders} first={8}>
          {(shown) => (
            <ol className="contention-holders">
              {shown.map(({ holder, ms }) => {
                const share = format.percent(all === 0 ? 0 : ms / all)
                const meaning = meanings.get(holder as 'gc')
                return (
                  <li key={holder} title={say('shareOf', { holder: visible(holder), share })}>
                    <span className="contention-name">
                      <Text value={holder} mono />
                      {meaning && <span className="aside">{say(meaning)}</span>}
                    </span>
                    <span className="contention-share" aria-hidden="true">
                      <i style={{ inlineSize: `${most === 0 ? 0 : (ms / most) * 100}%` }} />
                    </span>
                    <span className="contention-figure">{format.span(ms)}</span>
                    <span className="contention-figure aside">{share}</span>
                  </li>
                )
              })}
            </ol>
          )}
        </More>
      </div>
    </Section>
  )
}
