import { type ReactNode, useEffect } from 'react'

export interface PageProps {
  readonly title: string
  /** What stands under the title: a word on what this is. */
  readonly lead?: ReactNode
  /** Buttons at the end of the title's line. */
  readonly actions?: ReactNode
  readonly children: ReactNode
}

/** The frame of a view: its title, also in the tab, and what belongs to the whole of it. */
export function Page({ title, lead, actions, children }: PageProps): ReactNode {
  useEffect(() => {
    document.title = `${title} · Signalbox`
  }, [title])
  return (
    <>
      <header className="page-head">
        <div>
          <h1>
            <bdi>{title}</bdi>
          </h1>
          {lead && <p className="aside">{lead}</p>}
        </div>
        {actions && <div className="actions">{actions}</div>}
      </header>
      {children}
    </>
  )
}

export interface SectionProps {
  readonly title: string
  readonly actions?: ReactNode
  readonly children: ReactNode
}

/** A part of a view. */
export function Section({ title, actions, children }: SectionProps): ReactNode {
  return (
    <section className="section">
      <header>
        <h2>{title}</h2>
        {actions && <div className="actions">{actions}</div>}
      </header>
      {children}
    </section>
  )
}

export interface FactsProps {
  /** Undefined ones are left out. */
  readonly items: readonly (readonly [name: string, value: ReactNode] | undefined)[]
}

/** Names and values of one thing. */
export function Facts({ items }: FactsProps): ReactNode {
  return (
    <dl className="facts">
      {items.map(
        (item) =>
          item && (
            <div key={item[0]}>
              <dt>{item[0]}</dt>
              <dd>{item[1]}</dd>
            </div>
          ),
      )}
    </dl>
  )
}
