for (const table of document.querySelectorAll('table.sortable'))
  for (const [i, th] of [...table.tHead.rows[0].cells].entries()) th.firstChild.onclick = () => {
    const down = th.getAttribute('aria-sort') === 'ascending', value = r => r.cells[i].dataset.v;
    const n = v => v === '' ? -Infinity : Number(v);
    for (const o of table.tHead.rows[0].cells) o.removeAttribute('aria-sort');
    th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const rows = [...table.tBodies[0].rows], numeric = rows.every(r => value(r) === '' || !isNaN(value(r)));
    const order = (a, b) => numeric ? n(value(a)) - n(value(b)) : value(a).localeCompare(value(b));
    rows.sort((a, b) => (down ? -1 : 1) * order(a, b)).forEach(r => table.tBodies[0].append(r));
  };
